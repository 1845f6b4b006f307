"""Users and groups of a sandbox, read from its own /etc/passwd and /etc/group.

Not by `pwd` and `grp`: those ask libc, which loads name service modules out of the sandbox's root, and these would
run with all the rights their loader still has at that moment. An agent may have written these files: a number always
means that number, and lines that make no sense are passed over.
"""

import os
from typing import NamedTuple

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
