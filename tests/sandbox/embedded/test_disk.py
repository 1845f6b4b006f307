"""The disk limit, for real: images are mounted in private mount namespaces of processes that end with the test."""

import contextlib
import errno
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from seatrial.errors import HostUnsupportedError, SandboxError
from seatrial.sandbox.embedded import disk, home
from seatrial.sandbox.embedded.disk import attach_loop
from seatrial.sandbox.embedded.home import MIB, choose, make_image

WAIT_SEC = 20
CAN_MAKE = shutil.which("mkfs.ext4", path=f"{os.environ.get('PATH')}:/usr/sbin:/sbin") is not None
CAN_MOUNT = CAN_MAKE and os.getuid() == 0 and Path(disk.LOOP_CONTROL).exists()
needs_mkfs = pytest.mark.skipif(not CAN_MAKE, reason="no mkfs.ext4: apt-get install e2fsprogs")
needs_loop = pytest.mark.skipif(not CAN_MOUNT, reason="mounting an image takes root, loop devices and mkfs.ext4")

# Alone in a mount namespace: attach the image and mount it, by the real functions.
MOUNTED = """if 1:
    import ctypes, errno, json, os, sys
    from seatrial.sandbox.embedded.disk import EXT4_MOUNT_OPTIONS, attach_loop
    libc = ctypes.CDLL(None, use_errno=True)
    image, target = sys.argv[1:]
    def check(result):
        if result:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    def mount(source, target, kind, flags, data):
        check(libc.mount(source, target.encode(), kind, ctypes.c_ulong(flags), data))
    def mount_image():
        device, descriptor = attach_loop(image)
        mount(device.encode(), target, b"ext4", 0, EXT4_MOUNT_OPTIONS.encode())
        os.close(descriptor)
        return device
    def tell(**found):
        os.write(1, json.dumps(found).encode() + b"\\n")
    check(libc.unshare(0x20000))
    mount(None, "/", None, 0x44000, None)
"""


def start(image, target, body) -> "subprocess.Popen[bytes]":
    script = MOUNTED + "".join(f"    {line}\n" for line in body.splitlines())
    command = [sys.executable, "-c", script, str(image), str(target)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)


def told_by(process):
    """What the process tells next."""
    ready, _, _ = select.select([process.stdout], [], [], WAIT_SEC)
    assert ready, "nothing was told"
    return json.loads(process.stdout.readline())


def end(process):
    process.kill()
    process.wait(WAIT_SEC)
    process.stdin.close()
    process.stdout.close()


def devices_of(image):
    """The loop devices that show this image."""
    found = []
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):  # another test's may go at any time
            if path.read_text().strip().removesuffix(" (deleted)") == str(image):
                found.append(path.parent.parent.name)
    return found


def await_release(image):
    """The kernel may finish the last unmount a moment after the process is gone; there is no event to wait for."""
    deadline = time.monotonic() + WAIT_SEC
    while devices_of(image):
        assert time.monotonic() < deadline, f"{devices_of(image)} still show {image}"
        time.sleep(0.001)


FILL = """mount_image()
empty = os.statvfs(target)
written = 0
try:
    with open(f"{target}/file", "wb", buffering=0) as file:
        while True:
            written += file.write(bytes(1 << 18))
except OSError as error:
    free, used = empty.f_bavail * empty.f_frsize, (empty.f_blocks - empty.f_bfree) * empty.f_frsize
    tell(errno=error.errno, written=written, free=free, used=used)"""


@needs_loop
@pytest.mark.parametrize("storage_mb", [1, 5, 64, 200])
def test_an_image_holds_what_was_asked_and_hardly_more(tmp_path, storage_mb):
    image = tmp_path / "image"
    make_image(image, storage_mb)
    assert image.stat().st_blocks * 512 < MIB
    process = start(image, tmp_path, FILL)
    try:
        told = told_by(process)
    finally:
        end(process)
    asked = storage_mb * MIB
    assert told["errno"] == errno.ENOSPC
    assert asked <= told["free"] <= asked * 1.01 + MIB
    assert asked <= told["written"] <= told["free"]
    assert told["used"] < MIB
    await_release(image)


@needs_loop
def test_the_device_goes_with_a_process_that_is_killed(tmp_path):
    image = tmp_path / "image"
    make_image(image, 8)
    process = start(image, tmp_path, 'tell(device=mount_image())\nopen(f"{target}/busy", "w").write("x")\ninput()')
    try:
        told = told_by(process)
        assert devices_of(image) == [Path(told["device"]).name]
        assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
    finally:
        end(process)
    await_release(image)


@needs_loop
def test_those_who_ask_at_once_get_a_device_each(tmp_path):
    images = [tmp_path / f"image-{number}" for number in range(5)]
    for image in images:
        make_image(image, 1)
    body = "sys.stdin.read(1)\ntell(device=attach_loop(image).path)\ninput()"
    processes = [start(image, tmp_path, body) for image in images]
    try:
        for process in processes:
            assert process.stdin is not None
            process.stdin.write(b"!")
        assert len({told_by(process)["device"] for process in processes}) == len(images)
    finally:
        for process in processes:
            end(process)
    for image in images:
        await_release(image)


ELSEWHERE = """mount(b"tmpfs", f"{target}/dev", b"tmpfs", 0, None)
os.mknod(f"{target}/dev/loop-control", 0o20600, os.makedev(10, 237))
os.chroot(target)
os.chdir("/")
image, target = "/image", "/disk"
device = mount_image()
os.mkdir("/disk/folder")
tell(device=device, free=os.statvfs("/disk").f_bavail * os.statvfs("/disk").f_frsize)
os.unlink(device)"""


@needs_loop
def test_all_works_after_the_root_has_changed_even_without_a_device_node(tmp_path):
    for folder in ("dev", "disk"):
        (tmp_path / folder).mkdir()
    make_image(tmp_path / "image", 2)
    process = start(tmp_path / "image", tmp_path, ELSEWHERE)
    try:
        told = told_by(process)
        assert process.wait(WAIT_SEC) == 0
    finally:
        end(process)
    assert told["device"].startswith("/image.loop")
    assert told["free"] > MIB
    await_release(tmp_path / "image")


def test_what_cannot_be_attached_is_explained(tmp_path, monkeypatch):
    if CAN_MOUNT:
        with pytest.raises(SandboxError, match="missing"):
            attach_loop(str(tmp_path / "missing"))
    monkeypatch.setattr(disk, "LOOP_CONTROL", str(tmp_path / "no-control"))
    with pytest.raises(HostUnsupportedError, match=r"no-control.*modprobe loop"):
        attach_loop(str(tmp_path / "image"))


@needs_mkfs
def test_an_image_that_cannot_be_made_leaves_nothing_behind(tmp_path, monkeypatch):
    image = tmp_path / "image"
    with pytest.raises(SandboxError, match="cannot make the disk image"):
        make_image(image, 2**50)
    assert not image.exists()
    image.write_text("precious")
    with pytest.raises(SandboxError, match="File exists"):
        make_image(image, 1)
    assert image.read_text() == "precious"
    broken = tmp_path / "bin/mkfs.ext4"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\necho no such luck >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(broken.parent))
    with pytest.raises(SandboxError, match="no such luck"):
        make_image(tmp_path / "other", 1)
    assert not (tmp_path / "other").exists()


def test_a_loop_is_chosen_where_it_can_be_had_and_memory_only_as_far_as_it_goes(monkeypatch):
    assert choose(10, root=False) == "tmpfs"
    with pytest.raises(HostUnsupportedError, match="storage_mb = 1099511627776 is more than"):
        choose(2**40, root=False)
    if CAN_MOUNT:
        assert choose(2**40, root=True) == "loop"
    monkeypatch.setattr(home, "LOOP_CONTROL", "/nowhere")
    assert choose(10, root=True) == "tmpfs"
