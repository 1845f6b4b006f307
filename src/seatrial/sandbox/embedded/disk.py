"""A sandbox's own file system, in an image: attaching it as a block device.

Called by forked children whose root file system may no longer be the host's: everything is imported here at the top.
Mounting is left to the caller, who is alone in a mount namespace. Images are made in `home.py`.
"""

import errno
import fcntl
import os
import stat
import struct
from contextlib import ExitStack
from typing import NamedTuple

from seatrial.errors import HostUnsupportedError, SandboxError

LOOP_CONTROL = "/dev/loop-control"
EXT4_MOUNT_OPTIONS = "noinit_itable"  # else the kernel fills the unused inode tables, and with them the sparse image

_LOOP_MAJOR = 7
_LOOP_CTL_GET_FREE = 0x4C82
_LOOP_CONFIGURE = 0x4C0A
_LO_FLAGS_AUTOCLEAR = 4
_RACES = 200


class LoopDevice(NamedTuple):
    """A block device that vanishes with its last user. The descriptor is one until a mount has taken over."""

    path: str
    descriptor: int


def attach_loop(image: str) -> LoopDevice:
    """Make a block device of an image. The caller mounts it and closes the descriptor; unmounting frees the device.

    The kernel frees it even if every process is killed. Where /dev lacks the device, a node is made beside the image.
    Raises HostUnsupportedError where there are no loop devices, SandboxError for everything else.
    """
    with ExitStack() as stack:
        try:
            control = _open(LOOP_CONTROL, stack)
        except OSError as error:
            reason = f"{LOOP_CONTROL}: {error.strerror}"
            raise HostUnsupportedError(f"the disk cannot be limited: {reason}; as root: modprobe loop") from error
        try:
            backing = _open(image, stack)
            for _ in range(_RACES):
                if device := _configure(fcntl.ioctl(control, _LOOP_CTL_GET_FREE), image, backing):
                    return device
        except OSError as error:
            raise SandboxError(f"cannot attach {image} to a loop device: {error}") from error
    raise SandboxError(f"cannot attach {image} to a loop device: others took the free one {_RACES} times")


def _open(path: str, stack: ExitStack) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    stack.callback(os.close, descriptor)
    return descriptor


def _configure(number: int, image: str, backing: int) -> LoopDevice | None:
    """The device with that number on the image, or None when somebody else was faster."""
    path = f"/dev/loop{number}"
    with ExitStack() as undo:
        if not os.path.exists(path):
            path = f"{image}.loop{number}"
            os.mknod(path, stat.S_IFBLK | 0o600, _device_number(number))
            undo.callback(os.unlink, path)
        descriptor = _open(path, undo)
        info = struct.pack("=5Q4I64s64s32s2Q", *[0] * 8, _LO_FLAGS_AUTOCLEAR, os.fsencode(image)[:63], b"", b"", 0, 0)
        try:
            fcntl.ioctl(descriptor, _LOOP_CONFIGURE, struct.pack("=2I", backing, 0) + info + bytes(8 * 8))
        except OSError as error:
            if error.errno == errno.EBUSY:
                return None
            raise
        undo.pop_all()
    return LoopDevice(path, descriptor)


def _device_number(number: int) -> int:
    """The kernel spaces the minor numbers out when loop devices may have partitions; /sys knows, if it is there."""
    try:
        with open(f"/sys/block/loop{number}/dev") as file:
            major, _, minor = file.read().partition(":")
        return os.makedev(int(major), int(minor))
    except OSError:
        return os.makedev(_LOOP_MAJOR, number)
