"""Backends by name: ours, those of strangers, and those that are broken."""

import asyncio
import subprocess
import sys

import pytest

from seatrial.backends.named import ENTRY_POINTS, AutoBackend, backend_names, check_backend, find_backend, make_backend
from seatrial.errors import HostUnsupportedError, UsageError
from seatrial.plugins import plugin_names
from seatrial.sandbox.api import SandboxSpec
from seatrial.sandbox.engine.backend import EngineBackend
from seatrial.sandbox.engine.client import Endpoint
from seatrial.testing.null import NullBackend
from tests.installed import install


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


def test_names_that_do_not_exist_are_refused_with_those_that_do():
    known = "there are: .*auto,.* docker,.* embedded,.* local,.* podman"
    with pytest.raises(UsageError, match=f"there is no sandbox backend called 'dokcer'; {known}"):
        make_backend("dokcer")
    with pytest.raises(UsageError, match="called 'dokcer'"):
        check_backend("dokcer")


def test_ours_are_registered_like_those_of_strangers_and_each_makes_a_backend():
    assert set(plugin_names(ENTRY_POINTS)) == set(backend_names()) >= {"docker", "embedded", "local", "podman"}
    for name in ("auto", "docker", "embedded", "local", "podman"):
        check_backend(name)
        assert hasattr(make_backend(name), "create")
    assert isinstance(make_backend("auto"), AutoBackend)


def test_a_stranger_s_comes_after_those_that_auto_would_choose(monkeypatch, tmp_path):
    install(monkeypatch, tmp_path, "alien", "", backends="alien = PLUGIN")
    names = backend_names()
    assert names[:3] == ["embedded", "docker", "podman"]
    assert names[3:] == sorted(names[3:])
    assert {"alien", "local"} <= set(names[3:])


def test_to_look_one_up_imports_neither_it_nor_another():
    heavy = ("aiohttp", "seatrial.sandbox.embedded", "seatrial.sandbox.engine", "seatrial.sandbox.local")
    code = (
        "import sys; from seatrial.backends.named import *\n"
        "for name in ('auto', *backend_names()): check_backend(name)\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import no_such_module", r"'odd' of seatrial.backends cannot be loaded: No module named 'no_such_module'"),
        ("raise RuntimeError('half installed')", "cannot be loaded: half installed"),
        ("", "cannot be loaded: .*PLUGIN"),
        ("PLUGIN = 7", "'odd' of seatrial.backends is 7, expected a seatrial.backends.named.BackendPlugin"),
    ],
)
def test_a_broken_one_says_so_before_anything_starts(monkeypatch, tmp_path, code, said):
    install(monkeypatch, tmp_path, "odd", code, backends="odd = PLUGIN")
    with pytest.raises(UsageError, match=said):
        check_backend("odd")


def test_one_that_fails_when_it_is_made(monkeypatch, tmp_path):
    code = "from seatrial.backends.named import BackendPlugin\nPLUGIN = BackendPlugin(lambda: 1 / 0)\n"
    install(monkeypatch, tmp_path, "odd", code, backends="odd = PLUGIN")
    with pytest.raises(UsageError, match="the backend 'odd' cannot be made: ZeroDivisionError"):
        make_backend("odd")


def test_what_is_not_registered_is_not_found():
    assert find_backend("nothing of this name") is None
