"""The spawner: one small single-threaded process that forks every sandbox and every command in it.

It never waits for a child: reports and exits arrive as events, so that many sandboxes can be built at the same time.
Being the first process of its own pid namespace, it takes every sandbox with it when it dies, however it dies. So no
request may end it: one that cannot be carried out is answered with the reason.
"""

import contextlib
import errno
import gc
import os
import select
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from seatrial.descriptors import raise_limit
from seatrial.sandbox.embedded import children
from seatrial.sandbox.embedded.boxes import Boxes
from seatrial.sandbox.embedded.commands import Commands, Views
from seatrial.sandbox.embedded.files import FileWork
from seatrial.sandbox.embedded.forks import Forks
from seatrial.sandbox.embedded.inits import SHIFT_BASE, make_user_namespace
from seatrial.sandbox.embedded.protocol import (
    Box,
    CommandRequest,
    DescriptorsLostError,
    Mode,
    Request,
    Target,
    Transfer,
    decode,
    receive,
    send,
)
from seatrial.sandbox.embedded.roots import (
    SpawnerSettings,
    prepare_furniture,
    prepare_host_image,
    shift_host_image,
)
from seatrial.sandbox.embedded.running import Reply, RunningSandbox
from seatrial.sandbox.syscalls import (
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_REC,
    MS_SLAVE,
    PR_SET_DUMPABLE,
    PR_SET_PDEATHSIG,
    bind,
    mount,
    prctl,
    restrict,
    set_read_only,
    unshare,
)

Operation = Callable[[dict[str, Any], list[int], Reply], None]


def takes(kind: type[Request], carry_out: Callable[[Request, list[int], Reply], None]) -> Operation:
    """An operation on requests of one type, with the descriptors that came beside them."""
    return lambda message, descriptors, reply: carry_out(decode(kind, message), descriptors, reply)


class Spawner:
    """Serves requests until the control connection ends."""

    def __init__(self, control: socket.socket, manner: SpawnerSettings) -> None:
        self._control = control
        self._manner = manner
        poll = select.poll()
        poll.register(control, select.POLLIN)
        self._forks = Forks(poll)
        self._files = FileWork(self._forks, manner.owner)
        self._boxes = Boxes(poll, self._forks, self._files, manner)
        self._operations = self._offered()

    def _offered(self) -> dict[str, Operation]:
        files, boxes = self._files, self._boxes
        views = Views(self._forks, files.remove, self._manner)
        commands = Commands(self._forks, views, boxes, self._manner, lambda ending: send(self._control, ending))
        return {
            "ping": takes(Target, lambda _, __, reply: reply({}, [])),
            "prepare": takes(Target, self._prepare),
            "check_shift": takes(Target, self._check_shift),
            "remove": takes(Target, lambda target, _, reply: files.remove(reply, target.path)),
            "create": takes(Box, boxes.create),
            "exec": takes(CommandRequest, commands.start),
            "listen": takes(Target, commands.listen),
            "kill": takes(Target, boxes.kill),
            "renew": takes(Target, lambda target, _, reply: boxes.renew(target.name, views.leave, reply)),
            "destroy": takes(Target, boxes.destroy),
            "put": self._transfers(files.put),
            "get": self._transfers(files.get),
            "copy": takes(
                Target,
                lambda target, passed, reply: views.copy(
                    boxes[target.name], passed[0], reply, still=target.system == "still"
                ),
            ),
            "view": takes(
                Target,
                lambda target, passed, reply: views.make(boxes[target.name], target.system, passed[0], reply),
            ),
            "processes": self._writes(files.list_processes),
            "changes": self._writes(files.tell_changes),
            "snapshot": self._writes(files.save_layer),
            "pack_layer": self._transfers(files.pack_layer),
            "stamps": self._writes(files.tell_stamps),
            "size": self._writes(files.tell_size),
        }

    def _transfers(self, move: Callable[[RunningSandbox, Transfer, int, Reply], None]) -> Operation:
        """An operation that moves files between a sandbox and an archive."""
        return takes(
            Transfer, lambda transfer, passed, reply: move(self._boxes[transfer.name], transfer, passed[0], reply)
        )

    def _writes(self, work: Callable[[RunningSandbox, int, Reply], None]) -> Operation:
        """An operation that writes what it finds in a sandbox to a descriptor."""
        return takes(Target, lambda target, passed, reply: work(self._boxes[target.name], passed[0], reply))

    def serve(self) -> None:
        """Handle events until the control connection ends, which ends everything."""
        control = self._control.fileno()
        while True:
            for descriptor, _ in self._forks.wait():
                if descriptor == control:
                    if not self._serve_request():
                        return
                elif not self._boxes.handle(descriptor):
                    self._forks.handle(descriptor)

    def _serve_request(self) -> bool:
        """Carry out the next request; False when the other side has closed the connection."""
        try:
            received = receive(self._control)
        except DescriptorsLostError as error:
            self._refuse(error.message, error)
            return True
        if received is None:
            return False
        self._handle(*received)
        return True

    def _handle(self, message: dict[str, Any], descriptors: list[int]) -> None:
        def reply(answer: dict[str, Any], passed: list[int]) -> None:
            send(self._control, {"id": message["id"], **answer}, passed)

        try:
            self._operations[message["op"]](message, descriptors, reply)
        except Exception as error:  # noqa: BLE001 - one request that fails must not end the sandboxes of all others
            self._refuse(message, error)
        # Children that work with these have copies of their own since they were forked.
        for descriptor in descriptors:
            os.close(descriptor)

    def _refuse(self, message: dict[str, Any], error: Exception) -> None:
        reason = {"error": str(error) or repr(error), "errno": getattr(error, "errno", None)}
        send(self._control, {"id": message["id"], **reason, "kind": type(error).__name__})

    def _prepare(self, _: Target, __: list[int], reply: Reply) -> None:
        shift, prepared = self._manner.shift, self._manner.prepared

        def ready(answer: dict[str, Any], passed: list[int]) -> None:
            if shift is not None and not answer and not self._manner.shifted:
                self._manner.shifted.update(shift_host_image(prepared, shift))
            reply(answer, passed)

        rootless = self._manner.rootless
        self._files.answer_after(lambda: prepare_host_image(prepared, rootless=rootless), ready)

    def _check_shift(self, target: Target, _: list[int], reply: Reply) -> None:
        shift = self._manner.shift or 0
        keep = [] if self._manner.shift is None else [self._manner.shift]
        self._files.answer_after(lambda: children.try_shift(target.path, shift), reply, keep)


# Starting: `python -m seatrial.sandbox.embedded STAGE CONTROL_FD MODE STATE_ROOT RUN SOFT:HARD`. The first stage makes
# the namespaces and locks the view of the host; then Python is executed again, because only then does the process
# belong to its new user namespace as a whole, and its executable lie on a read-only mount. The last argument is how
# many files a command in a sandbox may have open: what our process was given, before it took more.

# How the kernel says that namespaces and mounts are not for us; anything else is another kind of trouble.
_REFUSALS = {errno.EPERM, errno.EACCES, errno.EINVAL, errno.ENOSPC, errno.ENOSYS}


class Orders(NamedTuple):
    """What the command line says."""

    mode: Mode
    state_root: str
    run: str
    open_files: str


def first_stage(control: socket.socket, orders: Orders) -> NoReturn:
    if orders.mode == "user":
        enter_user_namespace(control)
    unshare(CLONE_NEWPID | CLONE_NEWNS)
    child = os.fork()
    if child:
        with contextlib.suppress(BrokenPipeError):  # nobody is there any more: then it ends at once
            send(control, {"spawner": child})
        control.close()
        _, status = os.waitpid(child, 0)
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    mount(None, "/", None, MS_REC | MS_SLAVE)
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    _lock_host_view(orders.state_root)
    control.set_inheritable(True)
    arguments = ["second", str(control.fileno()), *orders]
    os.execv(sys.executable, [sys.executable, "-I", "-m", "seatrial.sandbox.embedded", *arguments])


def enter_user_namespace(control: socket.socket) -> None:
    """Become root of a user namespace: with a range of ids if our parent can arrange it, else with our own id only."""
    uid, gid = os.getuid(), os.getgid()
    unshare(CLONE_NEWUSER)
    send(control, {"map": os.getpid()})
    answer = receive(control)
    if answer and answer[0].get("mapped"):
        os.setresgid(0, 0, 0)
        os.setresuid(0, 0, 0)
        return
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def _lock_host_view(state_root: str) -> None:
    """Make the host's whole tree read-only in here, but for our own directory and the cgroups."""
    bind(state_root, state_root)
    restrict(state_root, MS_NODEV | MS_NOSUID)
    set_read_only("/", read_only=True, recursive=True)
    writable = [state_root, "/proc", *_cgroup_mounts()]
    for path in writable:
        with contextlib.suppress(OSError):  # a cgroup mount that is not ours to change stays as it is
            set_read_only(path, read_only=False)
    if os.statvfs(state_root).f_flag & os.ST_RDONLY:
        raise OSError(0, f"{state_root} cannot be written to")


def _cgroup_mounts() -> list[str]:
    with open("/proc/self/mountinfo") as file:
        lines = [line.partition(" - ") for line in file]
    return [left.split()[4] for left, _, right in lines if right.startswith("cgroup")]


def second_stage(control: socket.socket, orders: Orders) -> NoReturn:
    control.set_inheritable(False)
    os.umask(0o022)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    prctl(PR_SET_DUMPABLE, 0)
    # A signal with a handler, such as Python's own for Ctrl-C, would reach even a first process; others are dropped.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    raise_limit()
    shift = make_user_namespace(SHIFT_BASE) if orders.mode == "userns" else None
    prepared = f"{orders.state_root}/{orders.run}/prepared"
    try:
        prepare_furniture(prepared)
    except OSError as error:
        send(control, {"error": os.strerror(error.errno or 0), "unusable": error.errno})
        os._exit(1)
    owner = SHIFT_BASE if orders.mode == "userns" else 0
    soft, _, hard = orders.open_files.partition(":")
    spawner = Spawner(
        control, SpawnerSettings(shift, owner, orders.mode == "user", prepared, {}, (int(soft), int(hard)))
    )
    # Objects that never move again need not be copied into every child by the collector's bookkeeping.
    gc.collect()
    gc.freeze()
    gc.disable()
    send(control, {"up": os.getpid()})
    spawner.serve()
    os._exit(0)


def main() -> NoReturn:
    """Run the stage the command line names; a failure is told to the other side before the end."""
    stage, descriptor, mode, state_root, run, open_files = sys.argv[1:]
    control = socket.socket(fileno=int(descriptor))
    try:
        orders = Orders(mode, state_root, run, open_files)  # type: ignore[arg-type]
        (first_stage if stage == "first" else second_stage)(control, orders)
    except OSError as error:
        with contextlib.suppress(BrokenPipeError):  # stopped meanwhile: there is nobody left to tell
            refused = error.errno in _REFUSALS
            send(control, {"error": f"the sandbox spawner cannot start: {error}", "refused": refused})
        os._exit(1)
