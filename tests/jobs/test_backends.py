"""Backends by name, and the one that chooses by itself."""

import asyncio

import pytest

from seatrial.errors import HostUnsupportedError, UsageError
from seatrial.jobs.backends import BACKENDS, AutoBackend, make_backend
from seatrial.sandbox.api import SandboxSpec
from seatrial.sandbox.engine.backend import EngineBackend
from seatrial.sandbox.engine.endpoint import Endpoint
from seatrial.testing.null import NullBackend


def test_names_that_do_not_exist_are_refused_with_those_that_do():
    with pytest.raises(UsageError, match="auto, docker, embedded, local, podman"):
        make_backend("dokcer")


def test_every_name_makes_a_backend():
    for name in BACKENDS:
        assert hasattr(make_backend(name), "create")


def no_docker(tmp_path):
    return lambda: EngineBackend("docker", Endpoint("docker", str(tmp_path / "docker.sock")))


def test_the_first_that_works_is_chosen_and_known_by_its_own_name(tmp_path):
    async def work() -> str:
        async with AutoBackend({"docker": no_docker(tmp_path), "null": NullBackend}) as backend:
            sandbox = await backend.create(SandboxSpec())
            await sandbox.destroy()
            return (await backend.probe()).backend

    assert asyncio.run(work()) == asyncio.run(NullBackend().probe()).backend


def test_where_none_works_every_missing_step_is_named(tmp_path):
    async def work() -> None:
        async with AutoBackend({"docker": no_docker(tmp_path), "other": no_docker(tmp_path)}):
            pass

    with pytest.raises(
        HostUnsupportedError, match=r"(?s)docker: no docker daemon at .*systemctl.*other: no docker"
    ) as caught:
        asyncio.run(work())
    assert str(tmp_path) in str(caught.value)
