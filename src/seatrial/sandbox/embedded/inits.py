"""The first processes of a sandbox, which build its namespaces and then only hold them, and the rights that are left.

The outer one holds the sandbox; verifiers run beside it. The inner one, in a pid and mount namespace of its own, holds
what the agent starts: from in there the outside cannot be seen, while the outside sees everything within. It has no
/proc of its own until a command of the agent brings one along: only a process in there can. Neither is in the sandbox's
cgroups, so that no process inside can have them killed by using up the memory.
"""

import errno
import os
import select
import signal
import socket
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress

from seatrial.sandbox.embedded.disk import EXT4_MOUNT_OPTIONS, attach_loop
from seatrial.sandbox.embedded.protocol import Box, close_all_but, send
from seatrial.sandbox.embedded.roots import (
    SpawnerSettings,
    Tree,
    furnish,
    mount_trees,
    read_text,
    settle_in,
    write_text,
)
from seatrial.sandbox.syscalls import (
    CLONE_FILES,
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    CLONE_NEWUTS,
    MS_NODEV,
    MS_NOSUID,
    PR_CAPBSET_DROP,
    PR_SET_DUMPABLE,
    PR_SET_PDEATHSIG,
    SeccompFilter,
    capset,
    clone_idle,
    mount,
    permitted_capabilities,
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
        if order == KILL_VERIFIER:  # shared memory, semaphores and message queues outlive their processes
            unshare(CLONE_NEWIPC)
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


# User namespaces, in which root is an otherwise unused id of this machine. Their owner is such an id too: what a user
# may have only so many of, such as inotify instances, is counted for the owner as well. Were that the host's root, one
# sandbox could use up what the host and all others need.

# Above the ranges that distributions and systemd hand out, so that no other user's files can have these owners.
SHIFT_BASE = 0x70000000
SHIFT_COUNT = 65536
_OWNERS = 2**24


def owner_of(name: str) -> int:
    """An id for the user namespace of one sandbox, which hardly any other one has."""
    return SHIFT_BASE + SHIFT_COUNT + hash(name) % _OWNERS


def make_user_namespace(owner: int) -> int:
    """A descriptor of a new user namespace with all ids shifted. Needs a /proc of the current pid namespace."""
    child = _become_for_a_moment(owner, lambda: clone_idle(CLONE_NEWUSER))
    try:
        for name in ("uid_map", "gid_map"):
            write_text(f"/proc/{child}/{name}", f"0 {SHIFT_BASE} {SHIFT_COUNT}")
        return os.open(f"/proc/{child}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _become_for_a_moment(user: int, action: Callable[[], int]) -> int:
    """Do something as another user with all our rights: only root may make user namespaces everywhere."""
    rights = permitted_capabilities()
    os.seteuid(user)
    try:
        capset(rights)  # those in effect went with the user id, and come back with it
        return action()
    finally:
        os.seteuid(0)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # the kernel forgets it when the user changes


# What a sandboxed process may not do: capabilities beyond Docker's fourteen, and a list of system calls. The filter is
# installed before capabilities are dropped, so that `no_new_privs` is not needed and sudo works inside.

# chown dac_override fowner fsetid kill setgid setuid setpcap net_bind_service net_raw sys_chroot mknod audit_write
# setfcap
KEPT_CAPABILITIES = (0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31)
_LAST_CAPABILITY = 63

# name: (x86_64, aarch64); None where the architecture has no such call
_DENIED: dict[str, tuple[int | None, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pivot_root": (155, 41),
    "quotactl": (179, 60),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "syslog": (103, 116),
    "swapon": (167, 224),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}
_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE3 = 435
_SOCKET = {"x86_64": 41, "aarch64": 198}
_AF_VSOCK = 40
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_NAMESPACE_FLAGS = 0x7E020000

# BPF: load a word, jump if equal / greater-or-equal / any bit set, return
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_OFFSET, _ARCHITECTURE_OFFSET, _FIRST_ARGUMENT_OFFSET = 0, 4, 16
_ALLOW = 0x7FFF0000
_X32_BIT = 0x40000000


def _fail(number: int) -> tuple[int, int, int, int]:
    return _RETURN, 0, 0, 0x00050000 | number


def build_filter(machine: str) -> bytes:
    """The seccomp program for an architecture, as packed instructions."""
    column = list(_ARCHITECTURES).index(machine)
    denied = sorted(number for numbers in _DENIED.values() if (number := numbers[column]) is not None)
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE_OFFSET),
        (_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        _fail(errno.EPERM),
        (_LOAD, 0, 0, _NUMBER_OFFSET),
        # The x32 table has numbers of its own for the same calls; nobody needs it.
        (_AT_LEAST, 0, 1, _X32_BIT),
        _fail(errno.ENOSYS),
        # clone3 hides its flags behind a pointer that a filter cannot follow; libc falls back to clone.
        (_EQUAL, 0, 1, _CLONE3),
        _fail(errno.ENOSYS),
        (_EQUAL, 0, 4, _CLONE[machine]),
        (_LOAD, 0, 0, _FIRST_ARGUMENT_OFFSET),
        (_ANY_BIT, 0, 1, _NAMESPACE_FLAGS),
        _fail(errno.EPERM),
        (_RETURN, 0, 0, _ALLOW),
        # Sockets to the hypervisor belong to no network namespace.
        (_EQUAL, 0, 4, _SOCKET[machine]),
        (_LOAD, 0, 0, _FIRST_ARGUMENT_OFFSET),
        (_EQUAL, 0, 1, _AF_VSOCK),
        _fail(errno.EAFNOSUPPORT),
        (_RETURN, 0, 0, _ALLOW),
    ]
    program += [(_EQUAL, len(denied) - index, 0, number) for index, number in enumerate(denied)]
    program += [(_RETURN, 0, 0, _ALLOW), _fail(errno.EPERM)]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


_FILTER = SeccompFilter(build_filter(os.uname().machine) if os.uname().machine in _ARCHITECTURES else b"")


def deny_system_calls() -> None:
    """Install the filter on this process and all it will start. Needs CAP_SYS_ADMIN, so do it first."""
    _FILTER.install()


def drop_capabilities() -> None:
    """Keep the usual container capabilities, and let nothing started from here get more."""
    for capability in range(_LAST_CAPABILITY + 1):
        if capability not in KEPT_CAPABILITIES:
            try:
                prctl(PR_CAPBSET_DROP, capability)
            except OSError as error:
                if error.errno == errno.EINVAL:  # beyond the last one this kernel knows
                    break
                raise
    capset(sum(1 << capability for capability in KEPT_CAPABILITIES))
