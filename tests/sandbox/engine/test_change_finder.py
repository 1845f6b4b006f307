"""What differs from an image, whatever the engine lists: by the container's own directory, or file by file."""

import asyncio

import pytest

from seatrial.errors import TooLargeError
from seatrial.model.record import FileChanges
from seatrial.sandbox.api import open_sandbox
from seatrial.sandbox.engine import change_finder, changes
from seatrial.sandbox.engine.change_finder import lists_everything
from seatrial.sandbox.transfer import pack_files
from tests.docker_daemon import needs
from tests.sandbox.engine.support import SPEC, run, sh, with_label

pytestmark = needs("docker")

NATIVE = {"Driver": "overlay", "DriverStatus": [["Native Overlay Diff", "true"]]}
# A program of the image with another byte in it, its size and its time as before.
REWRITE = """cp -p /bin/busybox /tmp/new
printf X | dd of=/tmp/new bs=1 seek=800000 conv=notrunc 2>/dev/null
touch -r /bin/busybox /tmp/new
mv /tmp/new /bin/busybox
"""
# The same for a file that was there before the agent.
RESTAGE = "touch -r /task/edited /time; printf two >/task/edited; touch -r /time /task/edited; rm /time\n"


async def no_upper(*_: object) -> None:
    return None


@pytest.fixture(params=["upper", "content"])
def way(request, monkeypatch):
    """How it is found: `content` as on a daemon whose files are not ours to read."""
    if request.param == "content":
        monkeypatch.setattr(change_finder, "find_upper", no_upper)
    return request.param


@pytest.mark.usefixtures("way")
def test_a_program_of_the_image_rewritten_with_its_size_and_time():
    async def work(backend):
        async with open_sandbox(backend, SPEC) as sandbox:
            await sh(sandbox, REWRITE)
            return await sandbox.changes()

    assert run(work) == FileChanges(modified=("/bin/busybox",))


@pytest.mark.usefixtures("way")
def test_a_staged_file_rewritten_with_its_size_and_time():
    async def work(backend):
        async with open_sandbox(backend, SPEC) as sandbox:
            await sh(sandbox, "true", files=("/task", pack_files({"edited": b"one", "kept": b"one"})))
            await sh(sandbox, RESTAGE, changes_from_here=True)
            return await sandbox.changes()

    assert run(work) == FileChanges(added=("/task/edited",))


@needs("podman")
def test_an_engine_that_lists_everything_is_believed(monkeypatch):
    async def never(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(change_finder, "system_differences", never)

    async def work(backend):
        async with open_sandbox(backend, SPEC) as sandbox:
            await sh(sandbox, REWRITE)
            return await sandbox.changes()

    assert run(work, "podman") == FileChanges(modified=("/bin/busybox",))


def test_what_was_too_large_to_remember_counts_as_changed(monkeypatch):
    monkeypatch.setattr(changes, "_MAX_FILE_BYTES", 3)

    async def work(backend):
        async with open_sandbox(backend, SPEC) as sandbox:
            await sh(sandbox, "true", files=("/task", pack_files({"large": b"four", "small": b"one"})))
            await sh(sandbox, "true", changes_from_here=True)
            return await sandbox.changes()

    assert run(work) == FileChanges(added=("/task/large",))


def test_a_system_too_large_to_compare_is_said_to_be_so(monkeypatch):
    async def too_large(*_: object) -> None:
        raise TooLargeError("gigabytes")

    monkeypatch.setattr(change_finder, "find_upper", no_upper)
    monkeypatch.setattr(change_finder, "system_differences", too_large)

    async def work(backend):
        async with open_sandbox(backend, SPEC) as sandbox:
            return await sandbox.changes()

    assert run(work) == FileChanges(truncated=True)


def test_fresh_containers_are_not_left_behind(monkeypatch):
    monkeypatch.setattr(change_finder, "find_upper", no_upper)

    async def work(backend):
        async with open_sandbox(backend, SPEC) as sandbox:
            await sh(sandbox, "rm /bin/yes")
            assert (await sandbox.changes()).removed == ("/bin/yes",)
            label = f"org.seatrial.run={backend.run_name}"
            return await asyncio.to_thread(with_label, label)

    assert [name for name in run(work) if "fresh" in name] == []


@pytest.mark.parametrize(
    ("info", "podman", "expected"),
    [
        (NATIVE, True, True),
        (NATIVE, False, False),
        ({**NATIVE, "DriverStatus": [["Native Overlay Diff", "false"]]}, True, False),
        ({"Driver": "vfs", "DriverStatus": None}, True, False),
        ({}, True, False),
    ],
)
def test_whose_list_is_believed(info, podman, expected):
    assert lists_everything(info, podman=podman) is expected
