"""What keeps this machine from making namespaces, by what the kernel says about it in /proc, and what to do about it.

Asked only when the spawner could not start: each of these has made it fail, and none of them always does.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_CAP_SYS_ADMIN = 1 << 21
# Each with the value that forbids it; the first two are only for those who are not root.
_UNPRIVILEGED = {
    "kernel/apparmor_restrict_unprivileged_userns": ("1", "kernel.apparmor_restrict_unprivileged_userns=0"),
    "kernel/unprivileged_userns_clone": ("0", "kernel.unprivileged_userns_clone=1"),
}
_KNOBS = {"user/max_user_namespaces": ("0", "user.max_user_namespaces=10000")}


@dataclass(frozen=True, slots=True)
class Hindrance:
    """Why sandboxes cannot be made here, and the way around it."""

    reason: str
    fix: str

    def __str__(self) -> str:
        return f"{self.reason}; {self.fix}"


@dataclass(frozen=True, slots=True)
class _Machine:
    proc: Path
    uid: int

    def read(self, name: str) -> str:
        try:
            return (self.proc / name).read_text()
        except OSError:
            return ""

    def status(self, key: str) -> str:
        """A line of what the kernel says about this process."""
        lines = (line.partition(":") for line in self.read("self/status").splitlines())
        return next((value.strip() for name, _, value in lines if name == key), "")


def find_hindrance(proc: Path = Path("/proc"), uid: int | None = None) -> Hindrance:
    """The likeliest one; `proc` and `uid` are those of this process unless given.

    Where the root is a mount, nothing tells a chroot but that nothing else is in the way.
    """
    machine = _Machine(proc, os.geteuid() if uid is None else uid)
    return next((found for check in _CHECKS if (found := check(machine))), _leave_chroot("perhaps this is"))


def find_missing_proc(proc: Path = Path("/proc")) -> Hindrance | None:
    """The one thing without which nothing can be found out at all."""
    if (proc / "self/mountinfo").exists():
        return None
    return Hindrance(f"{proc} is not mounted", f"mount it: mount -t proc proc {proc}")


def _chroot(machine: _Machine) -> Hindrance | None:
    """Only there can the root be no mount."""
    mounted = {line.split()[4] for line in machine.read("self/mountinfo").splitlines()}
    return None if "/" in mounted else _leave_chroot("this is")


def _leave_chroot(what: str) -> Hindrance:
    return Hindrance(
        f"{what} a chroot, in which the kernel makes no namespaces for sandboxes",
        "run Seatrial outside of it, enter the directory by pivot_root instead of chroot (`.ci/minimal` in Seatrial's"
        " repository shows how), or use containers (-e docker, -e podman)",
    )


def _switched_off(machine: _Machine) -> Hindrance | None:
    for knob, (bad, setting) in {**_KNOBS, **(_UNPRIVILEGED if machine.uid else {})}.items():
        if machine.read(f"sys/{knob}").strip() == bad:
            return Hindrance(
                f"user namespaces are switched off here ({machine.proc}/sys/{knob} is {bad})",
                f"sudo sysctl -w {setting}",
            )
    return None


def _restricted(machine: _Machine) -> Hindrance | None:
    """Containers keep their processes from it, by taking rights from root and by a filter for everybody."""
    lacking = machine.uid == 0 and not int(machine.status("CapEff") or "0", 16) & _CAP_SYS_ADMIN
    if not lacking and machine.status("Seccomp") != "2":
        return None
    found = "root has no CAP_SYS_ADMIN here" if lacking else "a seccomp filter is set for this process"
    user = " for an ordinary user (--user 1000)" if machine.uid == 0 else ""
    return Hindrance(
        f"{found}, as in most containers",
        f"start the container{user} with --security-opt seccomp=unconfined --security-opt systempaths=unconfined, or"
        " use containers beside it (-e docker, -e podman)",
    )


_CHECKS: tuple[Callable[[_Machine], Hindrance | None], ...] = (_chroot, _switched_off, _restricted)
