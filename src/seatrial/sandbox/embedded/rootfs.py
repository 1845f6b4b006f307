"""Building a root file system in a fresh mount namespace: overlay, /proc, /dev, /sys.

Runs in forked children of the spawner, in the order the kernel demands.
"""

import os
import stat
from collections.abc import Mapping, Sequence

from seatrial.sandbox.syscalls import (
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_RDONLY,
    MS_REMOUNT,
    bind,
    bind_shifted,
    mount,
    restrict,
)

_DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
_DEV_LINKS = {
    "ptmx": "pts/ptmx",
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
}
_READ_ONLY_PROC = ("sys", "sysrq-trigger", "irq", "bus", "fs")
_MASKED_PROC = ("kcore", "keys", "key-users", "timer_list", "sched_debug", "kpagecount", "kpageflags", "acpi", "scsi")
_FEW_LAYERS = 8
_QUIET = MS_NOSUID | MS_NODEV | MS_NOEXEC


def mount_overlay(lowers: Sequence[str], upper: str, work: str, target: str, *, rootless: bool) -> None:
    """Lay directories over each other, the first one on top, with `upper` taking the writes.

    As root, `volatile` makes fsync inside free: a sandbox is not expected to survive a power cut. What is written must
    be whole files where they are seen, whatever this kernel's habits: they are looked at, copied and stored from there.
    """
    manner = "userxattr" if rootless else "volatile,redirect_dir=off,metacopy=off"
    options = f"lowerdir={':'.join(lowers)},upperdir={upper},workdir={work},{manner}"
    mount("overlay", target, "overlay", MS_NODEV, options)


def bind_lowers(
    lowers: Sequence[str], folder: str, user_namespace: int | None, shifted: Mapping[str, str]
) -> list[str]:
    """Give the lower directories short names below `folder`, their owners shifted into a user namespace if given.

    Those in `shifted` have been given one already.
    """
    if user_namespace is None and len(lowers) <= _FEW_LAYERS:
        return list(lowers)
    names = []
    for index, lower in enumerate(lowers):
        if lower in shifted:
            names.append(shifted[lower])
            continue
        target = f"{folder}/{index}"
        os.makedirs(target, exist_ok=True)
        if user_namespace is None:
            bind(lower, target)
        else:
            bind_shifted(lower, target, user_namespace)
        names.append(target)
    return names


def mount_proc(target: str, *, shifted: bool, rootless: bool) -> None:
    """A fresh /proc for the current pid namespace, with the host's knobs read-only and its secrets masked.

    They belong to the host's root. In a user namespace, where ids are `shifted`, nobody can become that: the kernel
    refuses by itself, and every mount that is not needed makes each sandbox faster to make and to remove. In that of an
    ordinary user, root is this user, and sees the user's own keys.
    """
    mount("proc", target, "proc", _QUIET)
    if shifted and rootless and os.path.exists(f"{target}/keys"):
        bind("/dev/null", f"{target}/keys")
    if shifted:
        return
    for name in _READ_ONLY_PROC:
        path = f"{target}/{name}"
        if os.path.exists(path):
            bind(path, path)
            restrict(path, MS_RDONLY | _QUIET)
    for name in _MASKED_PROC:
        path = f"{target}/{name}"
        if os.path.isdir(path):
            mount("tmpfs", path, "tmpfs", MS_RDONLY | _QUIET, "size=0")
        elif os.path.exists(path):
            bind("/dev/null", path)


def mount_dev(target: str, *, rootless: bool, owner: int) -> None:
    """A fresh /dev with the usual six devices. As root they are made, never bound: a bound one shares its owner.

    `owner` is the user that is root inside. Terminals get the group `tty` of the inside.
    """
    mount("tmpfs", target, "tmpfs", MS_NOSUID, f"mode=755,size=64k,nr_inodes=64,uid={owner},gid={owner}")
    for name, (major, minor) in _DEVICES.items():
        path = f"{target}/{name}"
        if rootless:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC))
            bind(f"/dev/{name}", path)
        else:
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(major, minor))
            os.chmod(path, 0o666)
            os.chown(path, owner, owner)
    for name, destination in _DEV_LINKS.items():
        os.symlink(destination, f"{target}/{name}")
    os.mkdir(f"{target}/pts")
    os.mkdir(f"{target}/shm")
    mount_pts(f"{target}/pts", rootless=rootless, owner=owner)
    mount_shm(f"{target}/shm")
    # Device files keep working on a read-only directory; that nobody can add one is the point.
    mount(None, target, None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NOEXEC)


def mount_pts(target: str, *, rootless: bool, owner: int) -> None:
    """Terminals of one's own: whoever shares them can type into them."""
    group = "" if rootless else f",gid={owner + 5}"
    mount("devpts", target, "devpts", MS_NOSUID | MS_NOEXEC, f"newinstance,ptmxmode=0666,mode=0620{group}")


def mount_shm(target: str) -> None:
    """A small shared-memory directory."""
    mount("tmpfs", target, "tmpfs", _QUIET, "mode=1777,size=64m")


def mount_sys(target: str) -> None:
    """/sys read-only, and nothing of it where the kernel does not allow even that."""
    try:
        mount("sysfs", target, "sysfs", _QUIET | MS_RDONLY)
    except OSError:
        mount("tmpfs", target, "tmpfs", _QUIET | MS_RDONLY, "size=0")


def furnish(root: str, *, rootless: bool, shifted: bool, owner: int) -> None:
    """Add what every root needs and images leave empty. `owner` is the user that is root inside."""
    for name in ("proc", "sys", "dev"):
        if not os.path.isdir(f"{root}/{name}"):
            os.makedirs(f"{root}/{name}", exist_ok=True)
    mount_dev(f"{root}/dev", rootless=rootless, owner=owner)
    mount_proc(f"{root}/proc", shifted=shifted, rootless=rootless)
    mount_sys(f"{root}/sys")
