"""What the spawner's other children do: run a command, move files, listen, kill, look at changes.

Each runs in a forked process that joins only the namespaces it needs. Nothing here may import when called: the root
file system may have changed by then.
"""

import errno
import json
import os
import signal
import socket
from collections.abc import Iterable
from typing import Any, NamedTuple, NoReturn

from seatrial.sandbox.archives import Manner, pack, unpack
from seatrial.sandbox.embedded.frozen import (
    freeze,
    frozen_folder,
    hide_shared,
    shared_within,
    start_over,
    take_out,
    write_copy,
)
from seatrial.sandbox.embedded.inits import deny_system_calls, drop_capabilities
from seatrial.sandbox.embedded.protocol import CommandRequest, Transfer, close_all_but, send
from seatrial.sandbox.embedded.roots import SpawnerSettings, mount_trees, read_text
from seatrial.sandbox.embedded.running import RunningSandbox
from seatrial.sandbox.embedded.view import Frozen, View, enter_verifier_view
from seatrial.sandbox.opens import place_watches
from seatrial.sandbox.process_names import RESTLESS, is_alive, shown_name, split_stat
from seatrial.sandbox.syscalls import (
    CLONE_NEWCGROUP,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWUSER,
    MS_PRIVATE,
    MS_REC,
    bind_shifted,
    clone_mounts,
    clone_without_devices,
    mount,
    reset_signal,
    setns,
    unshare,
)

_BACKLOG = 4096
_CANNOT_RUN, _NOT_FOUND = 126, 127
_LOOKS = 20


def run_command(command: CommandRequest, descriptors: list[int], shift: int | None, report: int) -> None:
    """Become the command. The namespaces are joined already; what is left is to give up every right but a few."""
    os.setsid()  # away from the host's terminal, and from signals to our own process group
    for standard in (0, 1, 2):
        os.dup2(descriptors[standard], standard)
    unshare(CLONE_NEWCGROUP)  # so that the command's own cgroup looks like the top
    others = descriptors[3:]
    close_all_but([report, *others] if shift is None else [report, shift, *others])
    # The user namespace is joined last: in it there is no right left to join the others, which belong to the host's.
    # The filter goes before the capabilities, of which installing it takes one.
    if shift is not None:
        setns(shift, CLONE_NEWUSER)
        os.close(shift)
    deny_system_calls()
    drop_capabilities()
    # From here on with no right that the agent does not have: it decides what these paths are and where they lead.
    if others:
        if shift is not None:
            os.setresgid(0, 0, 0)
            os.setresuid(0, 0, 0)
        _make_ready(command, others)
    try:
        account = find_account(command.user)
        if shift is not None or os.getuid() == 0:
            _become(account.uid, account.gid, account.groups)
        os.chdir(command.cwd)
    except (OSError, LookupError) as error:
        _give_up(str(error), _CANNOT_RUN)
    os.umask(0o022)
    env = {"HOME": account.home, "USER": account.name, **command.env}
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these; others are reset by themselves
        reset_signal(number)
    _execute(command.argv, env)


def _make_ready(command: CommandRequest, descriptors: list[int]) -> None:
    """Unpack and watch what the command asks for, by the descriptors that came for it, and close them."""
    if command.unpack is not None:
        _unpack(descriptors[0], command.unpack)
    if command.watch:
        place_watches(*descriptors[-2:])
    for descriptor in descriptors:
        os.close(descriptor)


def _become(uid: int, gid: int, groups: tuple[int, ...]) -> None:
    try:
        os.setgroups(groups)  # groups first and the user last: who is not root any more may not change their groups
    except PermissionError:
        # With one id mapped there are no groups to choose from; any other id fails below.
        if (uid, gid) != (0, 0):
            raise
        return
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def _execute(argv: list[str], env: dict[str, str]) -> None:
    """execve along PATH; what cannot be run ends like in a shell, with 127 or 126 and a word on stderr."""
    folders = [""] if "/" in argv[0] else [f"{folder}/" for folder in env.get("PATH", "").split(":") if folder]
    reason = errno.ENOENT
    for folder in folders:
        try:
            os.execve(folder + argv[0], argv, env)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                reason = error.errno or errno.EACCES
    _give_up(f"{argv[0]}: {os.strerror(reason)}", _NOT_FOUND if reason == errno.ENOENT else _CANNOT_RUN)


def _give_up(reason: str, code: int) -> NoReturn:
    """End like a shell that cannot run a command. It is not for us to fail: the agent may have brought it about."""
    os.write(2, f"{reason}\n".encode("utf-8", "replace"))
    os._exit(code)


def unpack_archive(transfer: Transfer, archive: int, shift: int | None) -> None:
    """Unpack an archive below a directory of the joined view, as the sandbox's own root."""
    _become_sandbox_root(shift)
    _unpack(archive, transfer.path, transfer.manner)


def _unpack(archive: int, path: str, manner: Manner = "files") -> None:
    os.makedirs(path, exist_ok=True)
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    with os.fdopen(os.dup(archive), "rb") as file:
        unpack(file, directory, manner=manner)
    os.close(directory)


def pack_archive(transfer: Transfer, archive: int, shift: int | None) -> None:
    _become_sandbox_root(shift)
    with os.fdopen(os.dup(archive), "wb") as file:
        pack(transfer.path, file, transfer.limit)


def _become_sandbox_root(shift: int | None) -> None:
    """Have the rights of root inside and no others: the agent decides where the paths lead that we follow."""
    if shift is not None:
        setns(shift, CLONE_NEWUSER)
        os.setresgid(0, 0, 0)
        os.setresuid(0, 0, 0)
    drop_capabilities()


def open_listener(init: int, port: int, report: socket.socket) -> None:
    """Listen inside the sandbox's network namespace and hand the socket out; it stays in there for ever."""
    setns(init, CLONE_NEWNET)
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError as error:
            raise OSError(error.errno, f"port {port} inside the sandbox: {error.strerror}") from None
        listener.listen(_BACKLOG)
        send(report, {"ready": True}, [listener.fileno()])


def copy_system(running: RunningSandbox, target: int, *, still: bool) -> None:
    """Copy what the agent did to the system, and write what that is to the descriptor `target`."""
    if running.disk is not None:
        setns(running.disk, CLONE_NEWNS)
    copy = frozen_folder(running.box.state)
    freeze(running.state, running.trees, running.division, copy, still=still)
    descriptor = os.open(copy, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    write_copy(descriptor, running.trees, target)
    os.close(descriptor)


def mount_system(running: RunningSandbox, manner: SpawnerSettings, curation: dict[str, Any]) -> Frozen:
    """A root that is made of the image and the copied and curated system; private to whoever mounts it."""
    unshare(CLONE_NEWNS)
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    copy, division = frozen_folder(running.box.state), running.division
    if curation["keep"] == "nothing":
        start_over(copy, running.trees)
    else:
        descriptor = os.open(copy, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        take_out(descriptor, running.trees, frozenset(curation["put_back"]), curation["rewritten"])
        os.close(descriptor)
    hide_shared(copy, running.trees, division.parts, manner.owner)
    root = mount_trees(running.trees, f"{running.box.state}/verifier/{running.frozen}", manner, copy)
    shared = shared_within(copy, division, running.box.workdir)
    return Frozen(clone_mounts(root, recursive=True), division, shared)


def make_temporary_folder(running: RunningSandbox, owner: int) -> int | None:
    """A new folder that everybody inside may write to, on the sandbox's disk: a descriptor of it, mounted nowhere.

    None where that disk is full: an agent that filled it must not keep its verifier from work.
    """
    try:
        os.makedirs(running.temporary, exist_ok=True)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        return None
    os.chown(running.temporary, owner, owner)
    os.chmod(running.temporary, 0o1777)
    return clone_without_devices(running.temporary)


def make_verifier_view(view: View, keep: Iterable[int], report: socket.socket) -> None:
    """Build the verifier's private root on top of the outer view, enter it, and send its mount namespace and root.

    The news also say how many entries of the agent's root did not fit into it.
    """
    # What is open can be reached through /proc by links of the agent, which some of the paths below may lead to: of
    # directories, nothing is.
    mounts = [each for each in (view.temporary, view.frozen and view.frozen.mounts) if each is not None]
    close_all_but([report.fileno(), *keep, *mounts])
    unshare(CLONE_NEWNS)
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    left_out = enter_verifier_view(view)
    namespace = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    send(report, {"news": True, "left_out": left_out}, [namespace, root])
    os.close(namespace)
    os.close(root)


def list_processes(target: int) -> None:
    """Write the names of the agent's processes, from its own /proc, as a list.

    By their short names, which the kernel keeps: to read a command line is to read memory its owner may have rigged.
    """
    names: list[str | None] = []
    for _ in range(_LOOKS):
        names = [_name_if_alive(pid) for pid in os.listdir("/proc") if pid.isdigit() and pid != "1"]
        if None not in names:
            break
    else:  # whoever moves on to a new process faster than it can be looked at is running all the same
        names.append(RESTLESS)
    os.write(target, json.dumps(sorted(filter(None, names))).encode())


def _name_if_alive(pid: str) -> str | None:
    """What a process is called in records, empty for a dead one, None when it is gone since the list was made."""
    text = read_text(f"/proc/{pid}/stat")
    if not text:
        return None
    name, fields = split_stat(text)
    return shown_name(name) if is_alive(fields) else ""


def try_shift(path: str, shift: int) -> None:
    """Find out whether owners below a path can be shifted, in a mount namespace that ends with this child."""
    unshare(CLONE_NEWNS)
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    bind_shifted(path, path, shift)


def fail(report: socket.socket, error: BaseException) -> None:
    try:
        number = error.errno if isinstance(error, OSError) else None
        send(report, {"error": f"{error}" or type(error).__name__, "errno": number, "kind": type(error).__name__})
    finally:
        os._exit(125)


# Users and groups, from the sandbox's own /etc/passwd and /etc/group. Not by `pwd` and `grp`: those ask libc, which
# loads name service modules out of the sandbox's root, and these would run with all the rights their loader still has.
# An agent may have written these files: a number always means that number, and malformed lines are skipped.

_MAX_BYTES = 2**20
_MAX_ID = 2**32 - 2


class Account(NamedTuple):
    """Who a command runs as."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    name: str


ROOT = Account(0, 0, (0,), "/root", "root")


def find_account(user: str | int | None) -> Account:
    """The account of a name, a number, or `name:group`; root when None. Raises LookupError naming the user."""
    if user is None:
        return ROOT
    wanted, _, group = str(user).partition(":")
    account = _by_number(int(wanted)) if wanted.isdigit() else _by_name(wanted)
    if not group:
        return account
    gid = int(group) if group.isdigit() else _group_number(group)
    return Account(account.uid, gid, (gid,), account.home, account.name)


def _by_name(name: str) -> Account:
    for row in _rows("/etc/passwd", 6):
        if row[0] == name and _is_id(row[3]):
            return _account(row)
    raise LookupError(f"user {name!r} is not in the sandbox's /etc/passwd")


def _by_number(uid: int) -> Account:
    if uid > _MAX_ID:
        raise LookupError(f"user {uid} is not a possible number")
    if uid == 0:
        return ROOT
    for row in _rows("/etc/passwd", 6):
        if int(row[2]) == uid and _is_id(row[3]):
            return _account(row)
    return Account(uid, uid, (uid,), "/", str(uid))


def _account(row: list[str]) -> Account:
    gid = int(row[3])
    member_of = [int(line[2]) for line in _rows("/etc/group", 4) if row[0] in line[3].split(",")]
    return Account(int(row[2]), gid, tuple({gid, *member_of}), row[5] or "/", row[0])


def _group_number(name: str) -> int:
    for row in _rows("/etc/group", 4):
        if row[0] == name:
            return int(row[2])
    raise LookupError(f"group {name!r} is not in the sandbox's /etc/group")


def _rows(path: str, width: int) -> list[list[str]]:
    """The lines of a table that have a usable number in their third column."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        text = os.read(descriptor, _MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    finally:
        os.close(descriptor)
    rows = [line.split(":") for line in text.split("\n")]
    return [row for row in rows if len(row) >= width and _is_id(row[2])]


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= _MAX_ID
