"""The two first processes of a sandbox. They build its namespaces, then sleep until they are killed.

The outer one holds the sandbox; verifiers run beside it. The inner one, in a pid and mount namespace of its own, holds
what the agent starts: from in there the outside cannot be seen, while the outside sees everything within.
"""

import os
import signal
import socket

from seatrial.sandbox.embedded.changes import remember_start
from seatrial.sandbox.embedded.disk import attach_loop
from seatrial.sandbox.embedded.protocol import send
from seatrial.sandbox.embedded.requests import Box
from seatrial.sandbox.embedded.rootfs import furnish, mount_proc
from seatrial.sandbox.embedded.roots import mount_trees, mount_trees_as_user, plan_trees
from seatrial.sandbox.embedded.syscalls import (
    CLONE_NEWCGROUP,
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUTS,
    MS_NODEV,
    MS_NOSUID,
    MS_PRIVATE,
    MS_REC,
    PR_SET_DUMPABLE,
    PR_SET_PDEATHSIG,
    mount,
    pause_for_ever,
    pivot_root,
    prctl,
    raise_loopback,
    set_hostname,
    unshare,
)

SANDBOX_FOLDERS = ("/logs/agent", "/logs/artifacts")


def run_outer_init(box: Box, prepared: str, *, mode: str, shift: int | None, owner: int, report: socket.socket) -> None:
    """Build the sandbox and report a descriptor of the inner init and one of the state directory; never returns."""
    for file in box.join:
        _write(file, "0")
    unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP | CLONE_NEWNET)
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    name_servers = _read("/etc/resolv.conf")
    _mount_disk(box)
    state = os.open(box.state, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    rootless = mode == "user"
    trees = plan_trees(box.base, box.layers, prepared)
    root = mount_trees_as_user(trees, box.state) if rootless else mount_trees(trees, box.state, shift, owner)
    raise_loopback()
    _allow_low_ports()
    set_hostname(box.hostname)
    furnish(root, rootless=rootless, owner=owner)
    pivot_root(root)
    _settle_in(box, owner, name_servers)
    remember_start(state)
    _sleep_lightly(keep={report.fileno(), state})
    inner = _start_inner_init(rootless=rootless)
    send(report, {"ready": True}, [os.pidfd_open(inner), state])
    os.closerange(3, 256)
    pause_for_ever()


def _start_inner_init(*, rootless: bool) -> int:
    """Fork the first process of the agent's namespaces and wait until it has built them."""
    done, ready = os.pipe2(os.O_CLOEXEC)
    unshare(CLONE_NEWPID)
    child = os.fork()
    if child:
        os.close(ready)
        if os.read(done, 1) != b"!":
            raise OSError(0, "the agent's namespaces could not be made")
        return child
    try:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        unshare(CLONE_NEWNS | CLONE_NEWIPC)
        mount(None, "/", None, MS_REC | MS_PRIVATE)
        mount_proc("/proc", rootless=rootless)
        os.write(ready, b"!")
        os.closerange(3, 256)
        pause_for_ever()
    finally:
        os._exit(1)


def _sleep_lightly(keep: set[int]) -> None:
    """Become a process that holds nothing, cannot be looked into, and lets the kernel bury its orphans."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    nothing = os.open("/dev/null", os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    for descriptor in range(3, 256):
        if descriptor not in keep:
            try:
                os.close(descriptor)
            except OSError:
                continue
    prctl(PR_SET_DUMPABLE, 0)


def _mount_disk(box: Box) -> None:
    kind, _, rest = (box.disk or "").partition(":")
    if kind == "tmpfs":
        mount("tmpfs", box.state, "tmpfs", MS_NOSUID | MS_NODEV, f"mode=755,size={rest}m")
    elif kind == "loop":
        device, descriptor = attach_loop(rest)
        mount(device, box.state, "ext4", MS_NODEV, "noinit_itable")
        os.close(descriptor)


def _allow_low_ports() -> None:
    """Port 80 for everyone: within a user namespace root has no right to it, and nobody else is here to mind."""
    try:
        _write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0")
    except OSError:
        return  # an older kernel, or a network namespace that is not ours to configure


def _settle_in(box: Box, owner: int, name_servers: str) -> None:
    """Inside the new root now: make the folders a trial needs, and the three files that name the machine."""
    for folder in (box.workdir, *SANDBOX_FOLDERS):
        _make_folder(folder, owner)
    for folder in SANDBOX_FOLDERS:
        os.chmod(folder, 0o777)
    _make_folder("/etc", owner)
    _write_anew("/etc/hostname", f"{box.hostname}\n", owner)
    _write_anew("/etc/resolv.conf", name_servers, owner)  # for commands on the host's network
    _write_anew("/etc/hosts", f"127.0.0.1 localhost {box.hostname}\n::1 localhost\n", owner)


def _make_folder(path: str, owner: int) -> None:
    current = ""
    for part in filter(None, path.split("/")):
        current = f"{current}/{part}"
        if not os.path.isdir(current):
            os.mkdir(current, 0o755)
            os.chown(current, owner, owner)


def _write_anew(path: str, text: str, owner: int) -> None:
    """Replace a file of the image, or the link in its place; a root that takes no writes keeps what it has."""
    try:
        if os.path.lexists(path):
            os.unlink(path)
        _write(path, text, os.O_CREAT | os.O_EXCL)
        os.chown(path, owner, owner)
    except OSError:
        return


def _read(path: str) -> str:
    try:
        with open(path, errors="replace") as file:
            return file.read(65536)
    except OSError:
        return ""


def _write(path: str, text: str, flags: int = 0) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | flags, 0o644)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
