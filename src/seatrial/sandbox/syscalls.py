"""The system calls Python has no function for, each raising OSError with the call's name when it fails.

Children use these after their root file system has changed, so everything is imported and looked up here, at the top.
What a child touches first has to be copied for it: what can be made ready before is.
"""

import ctypes
import fcntl
import os
import signal
import socket
import struct

_libc = ctypes.CDLL(None, use_errno=True)
_libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
_libc.mount.argtypes = [*[ctypes.c_char_p] * 3, ctypes.c_ulong, ctypes.c_char_p]
_USED = "clone inotify_add_watch inotify_init1 pause sethostname setns signal syscall umount2 unshare"
for _name in _USED.split():
    getattr(_libc, _name)
_python = ctypes.PyDLL(None, use_errno=True)  # keeps the interpreter's lock, as a fork must
_idle_stack = ctypes.create_string_buffer(2**15)

_CLONE_INTO_CGROUP = 0x200000000
_CLONE_VM = 0x100
CLONE_FS = 0x200
CLONE_FILES = 0x400
CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MS_SLAVE = 0x80000
_MNT_DETACH = 0x2

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
_PR_SET_NAME = 15
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24

_CAPABILITY_HEADER = struct.pack("=Ii", 0x20080522, 0)

_AT_FDCWD = -100
_AT_EMPTY_PATH = 0x1000
_AT_RECURSIVE = 0x8000
_OPEN_TREE_CLONE = 0x1
_MOVE_MOUNT_F_EMPTY_PATH = 0x4
_MOVE_MOUNT_T_EMPTY_PATH = 0x40
_MOUNT_ATTR_RDONLY = 0x1
_MOUNT_ATTR_NODEV = 0x4
_MOUNT_ATTR_IDMAP = 0x00100000
_RESOLVE_NO_XDEV = 0x01
_RESOLVE_IN_ROOT = 0x10

# Numbers above 424 are the same on every architecture; the three older ones are not.
_NUMBERS = {
    "x86_64": {"pivot_root": 155, "capget": 125, "capset": 126},
    "aarch64": {"pivot_root": 41, "capget": 90, "capset": 91},
}.get(os.uname().machine, {}) | {
    "open_tree": 428,
    "move_mount": 429,
    "clone3": 435,
    "close_range": 436,
    "openat2": 437,
    "mount_setattr": 442,
}


def supported_machine() -> bool:
    """Whether the system call numbers of this processor are known here."""
    return "pivot_root" in _NUMBERS


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _encode(text: str | None) -> bytes | None:
    return None if text is None else os.fsencode(text)


def _syscall(name: str, *arguments: object) -> int:
    return _check(_libc.syscall(_NUMBERS[name], *arguments), name)


def mount(source: str | None, target: str, kind: str | None = None, flags: int = 0, data: str | None = None) -> None:
    result = _libc.mount(_encode(source), _encode(target), _encode(kind), flags, _encode(data))
    _check(result, f"mount {kind or source} on {target}")


def bind(source: str, target: str, *, recursive: bool = False) -> None:
    """Make a directory or file appear a second time."""
    mount(source, target, None, MS_BIND | (MS_REC if recursive else 0))


def restrict(target: str, flags: int) -> None:
    """Remount a bind mount with stricter flags."""
    mount(None, target, None, MS_BIND | MS_REMOUNT | flags)


def unmount(target: str) -> None:
    """Detach a mount now and free it when nobody uses it any more."""
    _check(_libc.umount2(_encode(target), _MNT_DETACH), f"umount {target}")


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags), f"unshare {flags:#x}")


def setns(descriptor: int, flags: int) -> None:
    _check(_libc.setns(descriptor, flags), f"setns {flags:#x}")


def fork_into(group: int) -> int:
    """fork(2) with the child born in the version 2 control group that `group` is a descriptor of the directory of."""
    arguments = struct.pack("=11Q", _CLONE_INTO_CGROUP, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, group)
    _python.PyOS_BeforeFork()
    pid = int(_python.syscall(_NUMBERS["clone3"], arguments, ctypes.c_size_t(len(arguments))))
    if pid == 0:
        _python.PyOS_AfterFork_Child()
    else:
        _python.PyOS_AfterFork_Parent()
    return _check(pid, "clone3")


def clone_idle(flags: int) -> int:
    """Start a process that does nothing but exist in the new namespaces of `flags`, until it is killed.

    It shares our memory, so nothing is copied for it; all it runs is libc's pause, on a stack that only one can use.
    No signal may have a handler: pause returns when one has run.
    """
    top = ctypes.c_void_p(ctypes.addressof(_idle_stack) + len(_idle_stack))
    start = ctypes.cast(_libc.pause, ctypes.c_void_p)
    return _check(_libc.clone(start, top, _CLONE_VM | flags | signal.SIGCHLD, None), f"clone {flags:#x}")


def open_within(root: int, path: str, flags: int) -> int:
    """Open a path as if the directory `root` were / and everything else did not exist; other mounts are not entered.

    Needs Linux 5.6.
    """
    how = struct.pack("=3Q", flags | os.O_CLOEXEC, 0, _RESOLVE_IN_ROOT | _RESOLVE_NO_XDEV)
    return _syscall("openat2", ctypes.c_int(root), os.fsencode(path), how, ctypes.c_size_t(len(how)))


def close_range(first: int, last: int) -> None:
    """close_range(2). A Python built for an old libc closes descriptors one by one: 200 ms for all there can be."""
    _syscall("close_range", ctypes.c_uint(first), ctypes.c_uint(last), ctypes.c_uint(0))


def prctl(option: int, argument: int = 0, second: int = 0) -> None:
    """prctl(2) with whole-number arguments."""
    _check(_libc.prctl(option, argument, second, 0, 0), f"prctl {option}")


def rename_process(name: str, arguments: str) -> None:
    """Call this process something else in `ps` and `pgrep`, its command line included."""
    prctl(_PR_SET_NAME, ctypes.addressof(ctypes.create_string_buffer(name.encode())))
    title = f"{name} {arguments}".encode()
    # The arguments lie behind each other in memory, the program's name first; the kernel shows what is there now.
    start, length = _command_line
    if start and length > len(title):
        ctypes.memmove(start, title.ljust(length, b"\0"), length)


def _find_command_line() -> tuple[int | None, int]:
    try:
        with open("/proc/self/cmdline", "rb") as file:
            return ctypes.c_void_p.in_dll(_libc, "program_invocation_name").value, len(file.read())
    except FileNotFoundError:  # without /proc no sandbox is made, and the backend says so
        return None, 0


_command_line = _find_command_line()


def pivot_root(root: str) -> None:
    """Make `root` the root of this mount namespace and let go of the old one."""
    os.chdir(root)
    _syscall("pivot_root", b".", b".")
    unmount(".")
    os.chdir("/")


def permitted_capabilities() -> int:
    """What this process may do, or may allow itself to do, as a bit for each capability."""
    data = ctypes.create_string_buffer(24)
    _syscall("capget", _CAPABILITY_HEADER, data)
    _, low, _, _, high, _ = struct.unpack("=6I", data.raw)
    return int(low | high << 32)


def capset(permitted: int) -> None:
    """Set the permitted and effective capabilities, and none to inherit."""
    low, high = permitted & 0xFFFFFFFF, permitted >> 32
    _syscall("capset", _CAPABILITY_HEADER, struct.pack("=6I", low, low, 0, high, high, 0))


class SeccompFilter:
    """A seccomp filter given as packed BPF instructions, ready to be installed."""

    def __init__(self, program: bytes) -> None:
        self._program = ctypes.create_string_buffer(program, len(program))
        header = struct.pack("=HxxxxxxQ", len(program) // 8, ctypes.addressof(self._program))
        self._header = ctypes.create_string_buffer(header)
        self._place = ctypes.addressof(self._header)

    def install(self) -> None:
        prctl(PR_SET_SECCOMP, 2, self._place)


def reset_signal(number: int, *, ignored: bool = False) -> None:
    """Let the kernel do with a signal what it usually does, or ignore it, whatever Python thinks is done with it.

    For those who run little Python from then on: its own function looks up names for what was there before.
    """
    _libc.signal(number, ctypes.c_void_p(1 if ignored else 0))


def set_read_only(path: str, *, read_only: bool, recursive: bool = False) -> None:
    """Make a mount, or all mounts below a path, read-only or writable."""
    set_bits, clear_bits = (_MOUNT_ATTR_RDONLY, 0) if read_only else (0, _MOUNT_ATTR_RDONLY)
    attributes = struct.pack("=4Q", set_bits, clear_bits, 0, 0)
    flags = ctypes.c_uint(_AT_RECURSIVE if recursive else 0)
    _syscall("mount_setattr", ctypes.c_int(_AT_FDCWD), _encode(path), flags, attributes, ctypes.c_size_t(32))


def bind_shifted(source: str, target: str, user_namespace: int) -> None:
    """Bind a directory with its owners shifted by the id map of a user namespace."""
    tree = clone_mounts(source)
    try:
        _set_attributes(tree, _MOUNT_ATTR_IDMAP, user_namespace)
        attach_mounts(tree, target)
    finally:
        os.close(tree)


def clone_without_devices(path: str) -> int:
    """A descriptor of what is mounted at a path, as `clone_mounts` has it, on which no device can be opened."""
    tree = clone_mounts(path)
    _set_attributes(tree, _MOUNT_ATTR_NODEV)
    return tree


def _set_attributes(tree: int, attributes: int, user_namespace: int = 0) -> None:
    packed = struct.pack("=4Q", attributes, 0, 0, user_namespace)
    _syscall("mount_setattr", ctypes.c_int(tree), b"", ctypes.c_uint(_AT_EMPTY_PATH), packed, ctypes.c_size_t(32))


def clone_mounts(place: str | int, *, recursive: bool = False) -> int:
    """A descriptor of what is mounted at a path or another descriptor, as a copy that is nowhere yet.

    It can be taken to other namespaces.
    """
    is_opened = isinstance(place, int)
    folder = ctypes.c_int(place if isinstance(place, int) else _AT_FDCWD)
    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC | (_AT_EMPTY_PATH if is_opened else 0) | (_AT_RECURSIVE if recursive else 0)
    return _syscall("open_tree", folder, b"" if is_opened else os.fsencode(str(place)), ctypes.c_uint(flags))


def bind_opened(descriptor: int, target: str | int, *, recursive: bool = False) -> None:
    """Make the directory or file that a descriptor is of appear a second time, on a path or another descriptor."""
    tree = clone_mounts(descriptor, recursive=recursive)
    try:
        attach_mounts(tree, target)
    finally:
        os.close(tree)


def attach_mounts(tree: int, target: str | int) -> None:
    """Mount what `clone_mounts` copied, once."""
    is_opened = isinstance(target, int)
    folder = ctypes.c_int(target if isinstance(target, int) else _AT_FDCWD)
    flags = ctypes.c_uint(_MOVE_MOUNT_F_EMPTY_PATH | (_MOVE_MOUNT_T_EMPTY_PATH if is_opened else 0))
    _syscall("move_mount", ctypes.c_int(tree), b"", folder, b"" if is_opened else os.fsencode(str(target)), flags)


def start_inotify() -> int:
    """A new inotify instance that never blocks. Raises OSError where this user has no more of them."""
    return _check(_libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK), "inotify_init1")


def add_watch(instance: int, path: str, events: int) -> int:
    """Watch a path; returns the number that events of it carry, the same for every name of one file."""
    return _check(_libc.inotify_add_watch(instance, os.fsencode(path), ctypes.c_uint(events)), "inotify_add_watch")


def set_hostname(name: str) -> None:
    encoded = name.encode()
    _check(_libc.sethostname(encoded, len(encoded)), "sethostname")


def raise_loopback() -> None:
    control = socket.SocketType(socket.AF_INET, socket.SOCK_DGRAM)
    fcntl.ioctl(control.fileno(), 0x8914, struct.pack("16sh22x", b"lo", 0x1 | 0x40))
    control.close()
