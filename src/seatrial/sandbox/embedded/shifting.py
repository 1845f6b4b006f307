"""User namespaces in which a sandbox's root is an otherwise unused id of this machine.

They are also owned by such an id. What a user may have only so many of (inotify instances, say) the kernel counts for
the owner of his namespace as well: were that the host's root, one sandbox could use up what the host and all others
need.
"""

import os
import signal
from collections.abc import Callable

from seatrial.sandbox.embedded.settle import write_text
from seatrial.sandbox.syscalls import (
    CLONE_NEWUSER,
    PR_SET_PDEATHSIG,
    capset,
    clone_idle,
    permitted_capabilities,
    prctl,
)

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
