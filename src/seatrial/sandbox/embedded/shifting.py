"""User namespaces in which a sandbox's root is an otherwise unused id of this machine.

They are also owned by such an id. What a user may have only so many of (inotify instances, say) the kernel counts for
the owner of his namespace as well: were that the host's root, one sandbox could use up what the host and all others
need.
"""

import os
import socket
import zlib

from seatrial.sandbox.embedded.syscalls import CLONE_NEWUSER, PR_SET_KEEPCAPS, capset, prctl, unshare

# Above the ranges that distributions and systemd hand out, so that no other user's files can have these owners.
SHIFT_BASE = 0x70000000
SHIFT_COUNT = 65536
_OWNERS = 2**24
_CAN_MAKE_USER_NAMESPACES = 1 << 6 | 1 << 7 | 1 << 21  # setgid, setuid, sys_admin: where not everybody may


def owner_of(name: str) -> int:
    """An id for the user namespace of one sandbox, which hardly any other one has."""
    return SHIFT_BASE + SHIFT_COUNT + zlib.crc32(name.encode()) % _OWNERS


def make_user_namespace(owner: int) -> int:
    """A descriptor of a new user namespace with all ids shifted. Needs a /proc of the current pid namespace."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        try:
            ours.close()
            prctl(PR_SET_KEEPCAPS, 1)
            os.setresuid(owner, owner, owner)
            capset(_CAN_MAKE_USER_NAMESPACES)
            unshare(CLONE_NEWUSER)
            theirs.send(b"!")
            theirs.recv(1)
        finally:
            os._exit(0)
    theirs.close()
    try:
        if ours.recv(1) != b"!":
            raise OSError(0, "a user namespace could not be made")
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/{child}/{name}", "w") as file:
                file.write(f"0 {SHIFT_BASE} {SHIFT_COUNT}")
        return os.open(f"/proc/{child}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        ours.close()
        os.waitpid(child, 0)
