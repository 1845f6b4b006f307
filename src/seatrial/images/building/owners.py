"""Who files in an image belong to: `--chown` and USER as numbers, and what owners on this machine stand for."""

import os
import pwd
from dataclasses import dataclass

from seatrial.images.building.layer_view import LayerView
from seatrial.images.building.words import WordError
from seatrial.sandbox.embedded.id_ranges import granted_range

_MAX_ID = 2**32 - 2


@dataclass(frozen=True, slots=True)
class OwnersHere:
    """How owners of files in our layers are to be read; as root, they are who they are.

    An ordinary user's own files are root's in an image, and the ids that were granted to them begin at 1 there.
    """

    own: tuple[int, int]
    granted: tuple[tuple[int, int], tuple[int, int]]

    @classmethod
    def here(cls) -> "OwnersHere":
        """As it is for this user."""
        own = os.getuid(), os.getgid()
        if own[0] == 0:
            return cls((0, 0), ((1, _MAX_ID), (1, _MAX_ID)))
        name = pwd.getpwuid(own[0]).pw_name
        first, count = zip(*(granted_range(table, name, own[0]) or ("0", "0") for table in _TABLES), strict=True)
        return cls(own, ((int(first[0]), int(count[0])), (int(first[1]), int(count[1]))))

    def inside(self, status: os.stat_result) -> tuple[int, int]:
        """Who a file of a layer belongs to in the image."""
        found = (status.st_uid, status.st_gid)
        uid, gid = (
            0 if number == own else number - first + 1 if first <= number < first + count else 0
            for number, own, (first, count) in zip(found, self.own, self.granted, strict=True)
        )
        return uid, gid


_TABLES = ("/etc/subuid", "/etc/subgid")


def find_owner(view: LayerView, text: str) -> tuple[int, int]:
    """User and group of `user`, `user:group` or `:group`, names or numbers. Raises WordError.

    A name stands for its user's own group as well, a number for the group of the same number.
    """
    user, colon, group = text.partition(":")
    uid, gid = _find_user(view, user) if user else (0, 0)
    if not colon or not group:
        return uid, gid
    return uid, _number(group) if group.isdigit() else _find_group(view, group)


def _find_user(view: LayerView, user: str) -> tuple[int, int]:
    if user.isdigit():
        return _number(user), _number(user)
    for row in _rows(view, "/etc/passwd"):
        if row[0] == user and len(row) > 3 and row[2].isdigit() and row[3].isdigit():
            return _number(row[2]), _number(row[3])
    raise WordError(f"there is no user {user!r} in the image's /etc/passwd")


def _find_group(view: LayerView, group: str) -> int:
    for row in _rows(view, "/etc/group"):
        if row[0] == group and len(row) > 2 and row[2].isdigit():
            return _number(row[2])
    raise WordError(f"there is no group {group!r} in the image's /etc/group")


def _rows(view: LayerView, path: str) -> list[list[str]]:
    return [line.split(":") for line in view.read(path).decode("utf-8", "replace").splitlines()]


def _number(text: str) -> int:
    value = int(text) if text.isascii() and len(text) <= 10 else _MAX_ID + 1
    if value > _MAX_ID:
        raise WordError(f"{text} is not a possible number of a user or group")
    return value
