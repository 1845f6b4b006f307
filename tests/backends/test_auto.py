"""The backend that chooses by itself."""

import asyncio

import pytest

from seatrial.backends.auto import AutoBackend
from seatrial.errors import HostUnsupportedError, UsageError
from seatrial.sandbox.api import SandboxSpec
from seatrial.sandbox.engine.backend import EngineBackend
from seatrial.sandbox.engine.endpoint import Endpoint
from seatrial.testing.null import NullBackend


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


def test_nothing_is_chosen_before_it_is_entered():
    with pytest.raises(UsageError, match="async with"):
        asyncio.run(AutoBackend({"null": NullBackend}).probe())
