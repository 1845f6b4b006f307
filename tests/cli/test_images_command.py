"""`seatrial images`, as people call it: a registry on loopback, files, lines in a pipe and JSON."""

import asyncio
import io
import json
import os
import sys
import threading

import pytest

from seatrial.cli.images_command import show_progress
from seatrial.cli.main import run
from seatrial.cli.screen import show_size
from seatrial.images.cache import LayerProgress
from seatrial.testing.registry import Registry, pack, serve
from tests.cli.conftest import cells

pytestmark = pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="layers are unpacked by root here")

LAYER = pack({"etc/name": b"one"})


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SEATRIAL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))


@pytest.fixture
def registry():
    """A registry that serves from a thread of its own, since commands run their own loop."""
    served = Registry()
    ready, over = threading.Event(), threading.Event()

    async def play() -> None:
        async with serve(served):
            ready.set()
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=asyncio.run, args=(play(),))
    thread.start()
    assert ready.wait(30)
    yield served
    over.set()
    thread.join()


def test_pull_then_list_then_prune(registry, capsys):
    registry.push("team/app:1", [LAYER], config={"Env": ["A=b"]})
    name = f"{registry.address}/team/app:1"
    assert run(["images", "pull", name]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith(f"{name} sha256:")
    assert f"{name}: layer" in shown.err
    assert "is ready" in shown.err
    assert run(["images", "list"]) == 0
    header, row = capsys.readouterr().out.splitlines()
    assert cells(header) == ["image", "digest", "platform", "layers", "size", "last used"]
    assert cells(row)[0] == name
    assert run(["images", "list", "--json"]) == 0
    (image,) = json.loads(capsys.readouterr().out)
    assert (image["references"], image["config"], image["size_bytes"]) == ([name], {"Env": ["A=b"]}, 3)
    assert run(["images", "prune", "--keep", "1G"]) == 0
    assert capsys.readouterr().out == "freed 0 B; 3 B left, 0 B in use\n"
    assert run(["images", "prune", "--keep", "0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["references"] == [name]
    assert run(["images", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_what_is_here_is_said_to_be(registry, capsys):
    registry.push("app", [LAYER])
    for _ in range(2):
        assert run(["images", "pull", f"{registry.address}/app", "--json"]) == 0
    shown = capsys.readouterr()
    assert "is here already" in shown.err
    assert "[\n  {" in shown.out


def test_what_cannot_be_pulled_is_one_line(registry, capsys):
    assert run(["images", "pull", f"{registry.address}/nothing"]) == 1
    shown = capsys.readouterr().err
    assert shown.startswith(f"Error: {registry.address}/nothing:latest cannot be pulled")
    assert len(shown.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["pull", "NO GOOD"],
        ["pull"],
        ["pull", "a", "--platform", "?"],
        ["prune", "--keep", "much"],
        ["load", "/no/file"],
    ],
)
def test_wrong_words_are_a_matter_of_usage(arguments):
    assert run(["images", *arguments]) == 2


def test_load_a_root_file_system_from_a_file_and_from_standard_input(tmp_path, capsys, monkeypatch):
    (tmp_path / "root.tar").write_bytes(LAYER)
    assert run(["images", "load", str(tmp_path / "root.tar"), "--tag", "base:1"]) == 0
    name, digest, *_ = capsys.readouterr().out.split()
    assert name == "docker.io/library/base:1"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(LAYER)))
    assert run(["images", "load", "-", "--json"]) == 0
    (image,) = json.loads(capsys.readouterr().out)
    assert image["digest"] == digest  # the same content, so the same image


def test_sizes_as_they_are_shown():
    assert [show_size(size) for size in (0, 999, 1000, 2**20, 20 * 2**30, 2**50)] == [
        *("0 B", "999 B", "0.977 KiB", "1 MiB", "20 GiB", "1.02e+03 TiB"),
    ]


def test_bars_on_a_terminal(monkeypatch):
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with show_progress() as tell:
        for state, done in (("waiting", 0), ("fetching", 5), ("unpacking", 10), ("ready", 10)):
            tell(LayerProgress("app", "sha256:" + "ab" * 32, state, done, 10))  # type: ignore[arg-type]
    assert "abababababab ready" in terminal.getvalue()
