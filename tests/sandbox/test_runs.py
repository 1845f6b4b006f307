"""A run's directory is its own while it lives, and anybody's to clear away once it is dead."""

import asyncio
import errno
import os
import signal
import subprocess
import sys

import pytest

from seatrial.errors import HostUnsupportedError
from seatrial.sandbox.embedded.backend import EmbeddedBackend
from seatrial.sandbox.runs import Cleared, RunDirectory, look_again, state_root, unusable
from tests.sandbox.embedded.support import needs_root

HOLD = """
import sys
from pathlib import Path
from seatrial.sandbox.runs import RunDirectory
run = RunDirectory(Path(sys.argv[1]))
print(run.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def other_run(tmp_path):
    """Another process that has a run directory open."""
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
        process.kill()


def test_a_living_run_is_left_alone(tmp_path, other_run):
    run = RunDirectory(tmp_path)
    assert list(run.abandoned()) == []
    run.release()


def test_a_killed_run_is_found(tmp_path, other_run):
    process, path = other_run
    process.send_signal(signal.SIGKILL)
    process.wait()
    run = RunDirectory(tmp_path)
    assert [str(found) for found in run.abandoned()] == [path]
    run.release()


def test_only_one_clears_away(tmp_path, other_run):
    process, _ = other_run
    process.kill()
    process.wait()
    first, second = RunDirectory(tmp_path), RunDirectory(tmp_path)
    found = first.abandoned()
    next(found)
    assert list(second.abandoned()) == []
    found.close()
    first.release()
    second.release()


def test_two_runs_of_one_process_have_different_names(tmp_path):
    first, second = RunDirectory(tmp_path), RunDirectory(tmp_path)
    assert first.name != second.name
    first.release()
    second.release()


def test_the_state_directory_can_be_chosen(tmp_path, monkeypatch):
    monkeypatch.setenv("SEATRIAL_STATE_DIR", str(tmp_path / "state"))
    assert state_root() == tmp_path / "state"
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700


def test_a_name_overlay_cannot_take_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("SEATRIAL_STATE_DIR", str(tmp_path / "a:b"))
    with pytest.raises(HostUnsupportedError, match="SEATRIAL_STATE_DIR"):
        state_root()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make somebody else's directory")
def test_somebody_else_s_directory_is_refused(tmp_path, monkeypatch):
    (tmp_path / "theirs").mkdir()
    os.chown(tmp_path / "theirs", 12345, 12345)
    monkeypatch.setenv("SEATRIAL_STATE_DIR", str(tmp_path / "theirs"))
    with pytest.raises(HostUnsupportedError, match="somebody else"):
        state_root()


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_place_that_is_not_a_directory_is_named(tmp_path, monkeypatch, place):
    (tmp_path / "file").touch()
    monkeypatch.setenv("SEATRIAL_STATE_DIR", str(tmp_path / place))
    with pytest.raises(HostUnsupportedError, match=f"{place}, where sandboxes are kept, cannot be used: .*STATE_DIR"):
        state_root()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_place_is_told_with_what_is_left(tmp_path, code):
    message = str(unusable(tmp_path / "not" / "yet", OSError(code, os.strerror(code))))
    assert f"{tmp_path}/not/yet, where sandboxes are kept, is full (" in message
    assert " bytes free" in message
    assert ("a quota is used up" in message) == (code == errno.EDQUOT)
    assert message.endswith("set SEATRIAL_STATE_DIR to a directory with at least 64 MiB and 1,000 files to spare")


def test_a_process_without_descriptors_blames_no_folder(tmp_path):
    with pytest.raises(OSError, match="Too many"):
        unusable(tmp_path, OSError(errno.EMFILE, os.strerror(errno.EMFILE)))


def filled(place, leave):
    """A small file system at a place with so many of its 16 pages free."""
    (place / "fill").write_bytes(bytes(4096 * (16 - leave)))


def with_few_inodes(place, leave):
    """The same without inodes but so many; one is the place's own."""
    for number in range(7 - leave):
        (place / f"f{number}").touch()


def read_only(place, _):
    subprocess.run(["mount", "-o", "remount,ro", place], check=True)


@pytest.fixture
def small(tmp_path):
    """A file system of 64 KiB and 8 inodes, which ends with the test."""
    (tmp_path / "small").mkdir()
    options = ["-t", "tmpfs", "-o", "size=64k,nr_inodes=8,mode=755", "tmpfs", str(tmp_path / "small")]
    subprocess.run(["mount", *options], check=True)
    yield tmp_path / "small"
    subprocess.run(["umount", tmp_path / "small"], check=True)


@needs_root
@pytest.mark.parametrize(
    ("spoil", "leave", "said"),
    [
        *((filled, pages, " bytes free and room for ") for pages in (0, 1, 2)),
        *((with_few_inodes, inodes, "room for 0 files); make room there") for inodes in (0, 1, 2, 3, 4, 5)),
        (read_only, 0, "cannot be used: Read-only file system; set SEATRIAL_STATE_DIR"),
    ],
)
def test_a_backend_that_has_no_room_to_start_says_so_and_leaves_nothing(small, spoil, leave, said):
    spoil(small, leave)
    before = sorted(small.iterdir())
    with pytest.raises(HostUnsupportedError) as refused:
        asyncio.run(enter(EmbeddedBackend(root=small)))
    assert str(refused.value).startswith(f"{small}, where sandboxes are kept, ")
    assert said in str(refused.value)
    assert "chroot" not in str(refused.value)
    assert sorted(small.iterdir()) == before


async def enter(backend):
    async with backend:
        pass


def test_what_is_there_again_is_left(tmp_path):
    (tmp_path / "there").mkdir()
    found = look_again([tmp_path / "gone", tmp_path / "there"])
    assert found == Cleared((str(tmp_path / "gone"),), (str(tmp_path / "there"),))


def test_findings_of_several_add_up():
    both = Cleared(("a",), ("b",), ("no broom",)) + Cleared(("c",))
    assert both == Cleared(("a", "c"), ("b",), ("no broom",))
