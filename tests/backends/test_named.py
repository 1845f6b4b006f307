"""Backends by name: ours, those of strangers, and those that are broken."""

import subprocess
import sys

import pytest

from seatrial.backends.auto import AutoBackend
from seatrial.backends.named import ENTRY_POINTS, backend_names, check_backend, find_backend, make_backend
from seatrial.errors import UsageError
from seatrial.plugins import plugin_names
from tests.installed import install


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
        ("PLUGIN = 7", "'odd' of seatrial.backends is 7, expected a seatrial.backends.api.BackendPlugin"),
    ],
)
def test_a_broken_one_says_so_before_anything_starts(monkeypatch, tmp_path, code, said):
    install(monkeypatch, tmp_path, "odd", code, backends="odd = PLUGIN")
    with pytest.raises(UsageError, match=said):
        check_backend("odd")


def test_one_that_fails_when_it_is_made(monkeypatch, tmp_path):
    code = "from seatrial.backends.api import BackendPlugin\nPLUGIN = BackendPlugin(lambda: 1 / 0)\n"
    install(monkeypatch, tmp_path, "odd", code, backends="odd = PLUGIN")
    with pytest.raises(UsageError, match="the backend 'odd' cannot be made: ZeroDivisionError"):
        make_backend("odd")


def test_what_is_not_registered_is_not_found():
    assert find_backend("nothing of this name") is None
