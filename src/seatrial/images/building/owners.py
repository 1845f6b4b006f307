"""Who files in an image belong to: `--chown` and USER as numbers."""

from seatrial.images.building.layer_view import LayerView
from seatrial.images.building.words import WordError

_MAX_ID = 2**32 - 2


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
