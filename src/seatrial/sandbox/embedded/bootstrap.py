"""How the spawner starts: `python -m seatrial.sandbox.embedded STAGE CONTROL_FD MODE STATE_ROOT RUN SOFT:HARD`.

The first stage makes the namespaces and locks the view of the host; then Python is executed anew, because only then
does the process belong to its new user namespace as a whole, and its executable lie on a read-only mount. The last
argument is how many files a command in a sandbox may have open: what our process was given, before it took more.
"""

import contextlib
import errno
import gc
import os
import signal
import socket
import sys
from typing import NamedTuple, NoReturn

from seatrial.descriptors import raise_limit
from seatrial.sandbox.embedded.protocol import receive, send
from seatrial.sandbox.embedded.requests import Mode
from seatrial.sandbox.embedded.roots import SpawnerSettings, prepare_furniture
from seatrial.sandbox.embedded.shifting import SHIFT_BASE, make_user_namespace
from seatrial.sandbox.embedded.spawner import Spawner
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

# How the kernel says that namespaces and mounts are not for us; anything else is another kind of trouble.
_REFUSALS = {errno.EPERM, errno.EACCES, errno.EINVAL, errno.ENOSPC, errno.ENOSYS}


class Orders(NamedTuple):
    """What the command line says."""

    mode: Mode
    state_root: str
    run: str
    open_files: str


def first_stage(control: socket.socket, orders: Orders) -> NoReturn:
    """Make the namespaces, become the first process in them, and start over."""
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
    """Serve until the control connection ends."""
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
