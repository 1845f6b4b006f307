"""`seatrial images build`, as people call it."""

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from seatrial.cli.images_command import ending
from seatrial.images.building.step_cache import StepEnded
from tests.cli.conftest import SEATRIAL, Shown, on_terminal, start
from tests.docker_daemon import why_no
from tests.images.building.support import base_archive

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="layers are unpacked by root here"),
    pytest.mark.skipif("busybox" in (why_no("docker") or ""), reason="no busybox: install busybox-static"),
]


@pytest.fixture(autouse=True)
def base(tmp_path, monkeypatch, seatrial):
    """A store with one image in it."""
    monkeypatch.setenv("SEATRIAL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "base.tar").write_bytes(base_archive())
    assert seatrial("images", "load", tmp_path / "base.tar", "--tag", "base:1").code == 0


def test_a_task(seatrial, make_task):
    dockerfile = "FROM base:1\nARG WORD=none\nRUN echo said $WORD\nWORKDIR /app\n"
    task = make_task(files={"environment/Dockerfile": dockerfile})
    first = seatrial("images", "build", task, "--tag", "mine:1", "--build-arg", "WORD=this", "--network", "none")
    assert first.code == 0
    name, digest = first.out.split()
    assert (name, digest[:7]) == ("mine:1", "sha256:")
    lines = first.err.splitlines()
    assert lines[:4] == ["[1/4] FROM base:1", "[2/4] ARG WORD=none", "[3/4] RUN echo said $WORD", "    said this"]
    again = seatrial("images", "build", task, "--build-arg", "WORD=this", "--network", "none", "-q")
    assert (again.out, again.err) == (f"{digest}\n", "")
    known = json.loads(seatrial("images", "build", task, "--build-arg", "WORD=this", "--network", "none", "--json").out)
    assert (known["digest"], known["steps"], known["cached"]) == (digest, 4, 4)
    assert "mine:1" in seatrial("images", "list").out


def test_two_processes_at_once_build_once(make_task, tmp_path):
    task = make_task(files={"environment/Dockerfile": "FROM base:1\nRUN echo spoken; sleep 0.3\n"})

    def build(_: int) -> Shown:
        return start("images", "build", task, "--network", "none", SEATRIAL_CACHE=f"{tmp_path}/cache")

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(build, range(2))
    assert one.out == other.out
    assert sorted("\n    spoken\n" in shown.err for shown in (one, other)) == [False, True]


def test_another_folder_and_file(seatrial, tmp_path):
    (tmp_path / "context").mkdir()
    (tmp_path / "context/file").write_text("x")
    (tmp_path / "other").write_text("FROM base:1 AS one\nCOPY file /\nFROM scratch\n")
    shown = seatrial("images", "build", tmp_path / "context", "-f", tmp_path / "other", "--target", "one", "--json")
    assert len(json.loads(shown.out)["layers"]) == 2


@pytest.mark.parametrize(
    ("dockerfile", "arguments", "code", "said"),
    [
        (None, "", 2, "has no environment/Dockerfile; nor does it name an image"),
        ("FROM base:1\nRUN exit 4", "--network none", 1, "Dockerfile:2: RUN: it ended with exit code 4"),
        ("FROM base:1\nFOO", "", 1, "Dockerfile:2: FOO: unsupported instruction"),
        ("FROM base:1", "--build-arg x", 2, "takes NAME=VALUE, not 'x'"),
        ("FROM base:1", "--platform a/b/c/d", 2, "is not a platform"),
    ],
)
def test_what_goes_wrong_is_said(seatrial, make_task, dockerfile, arguments, code, said):
    task = make_task(files={"environment/Dockerfile": dockerfile} if dockerfile else {})
    shown = seatrial("images", "build", task, *arguments.split())
    assert shown.code == code
    assert said in shown.err


def test_a_task_that_names_its_image(seatrial, make_task):
    shown = seatrial("images", "build", make_task(toml='environment.docker_image = "x:1"'))
    assert "it uses x:1: `seatrial images pull x:1`" in shown.err


def test_how_a_step_ended():
    assert [ending(StepEnded(1, how, 1.25)) for how in ("built", "cached", "noted")] == ["done 1.2 s", "cached", ""]


def test_on_a_terminal(make_task, tmp_path):
    task = make_task(files={"environment/Dockerfile": "FROM base:1\nRUN echo a word\n"})
    setting = ("env", f"SEATRIAL_CACHE={tmp_path}/cache")
    shown = on_terminal((*setting, *SEATRIAL, "images", "build", str(task), "--network", "none"))
    assert "RUN echo a word" in shown
    assert "done" in shown
    assert "sha256:" in shown
