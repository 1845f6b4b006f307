"""The two first processes of a sandbox. They build its namespaces, then do nothing but hold them.

The outer one holds the sandbox; verifiers run beside it. The inner one, in a pid and mount namespace of its own, holds
what the agent starts: from in there the outside cannot be seen, while the outside sees everything within. It has no
/proc of its own until a command of the agent brings one along: only a process in there can. Neither is in the sandbox's
cgroups, so that no process inside can have them killed by using up the memory.
"""

import os
import select
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress

from seatrial.sandbox.embedded.descriptors import close_all_but
from seatrial.sandbox.embedded.disk import EXT4_MOUNT_OPTIONS, attach_loop
from seatrial.sandbox.embedded.protocol import send
from seatrial.sandbox.embedded.requests import Box
from seatrial.sandbox.embedded.rootfs import furnish
from seatrial.sandbox.embedded.roots import SpawnerSettings, Tree, mount_trees
from seatrial.sandbox.embedded.settle import read_text, settle_in, write_text
from seatrial.sandbox.embedded.shifting import make_user_namespace, owner_of
from seatrial.sandbox.syscalls import (
    CLONE_FILES,
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUTS,
    MS_NODEV,
    MS_NOSUID,
    PR_SET_DUMPABLE,
    clone_idle,
    mount,
    pivot_root,
    prctl,
    raise_loopback,
    rename_process,
    reset_signal,
    set_hostname,
    unshare,
)

KILL_AGENT, KILL_VERIFIER, KILL_ALL = b"a", b"v", b"x"
_PASSES = 50


def run_outer_init(box: Box, trees: Sequence[Tree], manner: SpawnerSettings, link: socket.socket) -> None:
    """Build the sandbox, report the inner init and what it is made of, then obey the spawner; never returns.

    What is mounted here stays here: the mounts of the spawner see what the host mounts, and pass nothing on.
    """
    unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET)
    name_servers = read_text("/etc/resolv.conf")
    disk = _mount_disk(box)
    state = os.open(box.state, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    root = mount_trees(trees, box.state, manner)
    raise_loopback()
    _allow_low_ports()
    set_hostname(box.hostname)
    furnish(root, rootless=manner.rootless, shifted=manner.shifts, owner=manner.owner)
    pivot_root(root)
    settle_in(box, manner.owner, name_servers)
    users = None if manner.shift is None else make_user_namespace(owner_of(box.name))
    root_inside = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    own = {"state": state, "root": root_inside, "users": users, "disk": disk}
    given = {name: descriptor for name, descriptor in own.items() if descriptor is not None}
    _hold_nothing(box.name, keep=[link.fileno(), *given.values()])
    inner = InnerInit()
    send(link, {"ready": list(given), "proc": os.stat("/proc").st_dev}, [inner.descriptor, *given.values()])
    for descriptor in given.values():
        os.close(descriptor)
    _obey(link, inner)


def _obey(link: socket.socket, inner: "InnerInit") -> None:
    """Kill what the spawner says, from a place where nothing inside can stop us: nobody may signal a first process."""
    while True:
        order = link.recv(1)
        if order == KILL_VERIFIER and _kill_beside_the_agent():
            pass  # the agent's processes go on
        elif order == KILL_AGENT:
            inner.kill()
            inner.restart()
        elif order in (KILL_VERIFIER, KILL_ALL):
            _kill_everyone()
            inner.restart()
        else:
            os._exit(0)
        send(link, {"killed": True}, [inner.descriptor])


def _kill_everyone() -> None:
    """End every other process of this pid namespace; returns when none is alive, though some may wait to be buried."""
    while living := _others(_is_alive):
        with suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        for pid in living:
            _end(pid)


def _kill_beside_the_agent() -> bool:
    """End every other process but the agent's; False when new ones appear faster than they can be found."""
    for _ in range(_PASSES):
        living = _others(_beside_the_agent)
        if not living:
            return True
        for pid in living:
            _end(pid)
    return False


def _others(chosen: Callable[[str], bool]) -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1" and chosen(name)]


def _end(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    select.select([descriptor], [], [])
    os.close(descriptor)


def _beside_the_agent(pid: str) -> bool:
    """Whether a process lives in this pid namespace itself, not in the agent's within it."""
    numbers = read_text(f"/proc/{pid}/status").partition("\nNSpid:")[2].partition("\n")[0].split()
    return len(numbers) == 1 and _is_alive(pid)


def _is_alive(pid: str) -> bool:
    """Whether a process is more than a zombie, which only waits for the spawner to ask for its exit code."""
    return read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()[:1] not in ([], ["Z"], ["X"])


class InnerInit:
    """The first process of the agent's namespaces. Killing it kills all of them at once, whatever they do about it.

    It shares our memory and our descriptors: nothing is copied for a process that does nothing.
    """

    def __init__(self) -> None:
        self.descriptor = -1
        self.restart()

    def kill(self) -> None:
        """End the agent's processes; returns when they are gone."""
        signal.pidfd_send_signal(self.descriptor, signal.SIGKILL)
        select.select([self.descriptor], [], [])

    def restart(self) -> None:
        """Make new namespaces for the agent."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor = os.pidfd_open(clone_idle(CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_FILES))


def _hold_nothing(title: str, keep: list[int]) -> None:
    """Become a process that has nothing open, cannot be looked into, and lets the kernel bury its orphans."""
    reset_signal(signal.SIGCHLD, ignored=True)
    nothing = os.open("/dev/null", os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    close_all_but(keep)
    # Else whoever looks for a Python of the agent's finds us. On the host it tells whose sandbox this is.
    rename_process("init", title)
    prctl(PR_SET_DUMPABLE, 0)


def _mount_disk(box: Box) -> int | None:
    """Mount a disk of the sandbox's own, if it has one, and return the namespace in which it stays mounted.

    Once the sandbox's root is entered, no path leads to its disk any more; a frozen system has to be made from there.
    """
    kind, _, rest = (box.disk or "").partition(":")
    if not kind:
        return None
    if kind == "tmpfs":
        mount("tmpfs", box.state, "tmpfs", MS_NOSUID | MS_NODEV, f"mode=755,size={rest}m")
    else:
        device, descriptor = attach_loop(rest)
        mount(device, box.state, "ext4", MS_NOSUID | MS_NODEV, EXT4_MOUNT_OPTIONS)
        os.close(descriptor)
    namespace = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    unshare(CLONE_NEWNS)
    return namespace


def _allow_low_ports() -> None:
    """Port 80 for everyone: within a user namespace root has no right to it, and nobody else is here to mind."""
    try:
        write_text("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0")
    except OSError:
        return  # an older kernel, or a network namespace that is not ours to configure
