"""Files of a trial by the paths that pages have for them: in its folder, its tries, and its later revisions.

A path is one in the trial's own folder, unless it begins with `@try.N/` or `@revision.N/`.
"""

import re
from pathlib import Path

from seatrial.errors import StoreError

_ELSEWHERE = re.compile(r"@(try|revision)\.([1-9][0-9]{0,8})", re.ASCII)
_FOLDERS = {"try": "tries", "revision": "revisions"}


def place_of(trial_id: str, path: str) -> Path:
    """Where a trial's file is, from the folder of its job. Raises StoreError for what cannot be a path of one.

    Only names are looked at: whoever opens the file must follow no links.
    """
    names = path.split("/")
    if trial_id in ("", ".", "..") or "/" in trial_id or "\0" in trial_id:
        raise StoreError(f"{trial_id!r}: cannot be the id of a trial")
    if not path or "\0" in path or any(name in ("", ".", "..") for name in names):
        raise StoreError(f"{path!r}: cannot be read: expected the path of a file below the trial's folder")
    if elsewhere := _ELSEWHERE.fullmatch(names[0]):
        return Path(_FOLDERS[elsewhere[1]], f"{trial_id}.{elsewhere[2]}", *names[1:])
    return Path("trials", trial_id, *names)
