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
from typing import Any, NoReturn

from seatrial.sandbox.archive import pack
from seatrial.sandbox.embedded.accounts import find_account
from seatrial.sandbox.embedded.curation import take_out, write_copy
from seatrial.sandbox.embedded.descriptors import close_all_but
from seatrial.sandbox.embedded.frozen import freeze, frozen_folder, hide_shared, shared_within, start_over
from seatrial.sandbox.embedded.protocol import send
from seatrial.sandbox.embedded.requests import CommandRequest, Transfer
from seatrial.sandbox.embedded.roots import SpawnerSettings, mount_trees
from seatrial.sandbox.embedded.running import RunningSandbox
from seatrial.sandbox.embedded.security import deny_system_calls, drop_capabilities
from seatrial.sandbox.embedded.settle import read_text
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
from seatrial.sandbox.unpacking import Manner, unpack

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
    """Pack a path of the joined view into an archive."""
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
    """Tell the spawner why this child gives up, and end it."""
    try:
        number = error.errno if isinstance(error, OSError) else None
        send(report, {"error": f"{error}" or type(error).__name__, "errno": number, "kind": type(error).__name__})
    finally:
        os._exit(125)
