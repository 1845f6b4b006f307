"""Users and groups of a sandbox, read from its own /etc/passwd and /etc/group.

Not by `pwd` and `grp`: those ask libc, which loads name service modules out of the sandbox's root, and these would
run with all the rights their loader still has at that moment.
"""

import os
from dataclasses import dataclass

_MAX_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Account:
    """Who a command runs as."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    name: str


def find_account(user: str | int | None) -> Account:
    """The account of a name, a number, or `name:group`; root when None. Raises LookupError naming the user."""
    wanted, _, group = str(0 if user is None else user).partition(":")
    found = _passwd_entry(wanted)
    if found is None:
        raise LookupError(f"user {wanted!r} is not in the sandbox's /etc/passwd")
    if not group:
        return found
    gid = next((int(row[2]) for row in _rows("/etc/group") if group in (row[0], row[2])), None)
    if gid is None and not group.isdigit():
        raise LookupError(f"group {group!r} is not in the sandbox's /etc/group")
    return Account(found.uid, int(group) if gid is None else gid, (), found.home, found.name)


def _passwd_entry(wanted: str) -> Account | None:
    for row in _rows("/etc/passwd"):
        if wanted in (row[0], row[2]) and len(row) >= 6:
            member_of = [int(line[2]) for line in _rows("/etc/group") if row[0] in line[-1].split(",")]
            return Account(int(row[2]), int(row[3]), tuple({int(row[3]), *member_of}), row[5] or "/", row[0])
    if not wanted.isdigit():
        return None
    # A number needs no entry; root has a home even in an image with no /etc at all.
    number = int(wanted)
    return Account(number, number, (number,), "/root" if number == 0 else "/", wanted)


def _rows(path: str) -> list[list[str]]:
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
    rows = [line.split(":") for line in text.splitlines()]
    return [row for row in rows if len(row) >= 4 and row[2].isdigit()]
