"""Which folders are jobs, and by what key each is known in addresses.

A folder that was named is a job, or has jobs in it, or in folders of it. Links in them are not followed: they may lead
anywhere.
"""

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from seatrial.errors import JobError
from seatrial.store.files import JOB

_UNFIT = re.compile(r"[^A-Za-z0-9._-]")
_DEPTH = 2


def job_folders(roots: Sequence[Path]) -> dict[str, Path]:
    """The folder of every job by its key: its name, with those of the folders between it and the one that was named.

    A key depends on nothing but where a job is, as long as no two folders that were named have one of the same name.
    """
    found: dict[str, Path] = {}
    for root in roots:
        for folder in _jobs_in(root):
            key = _key(root, folder)
            if key in found and found[key].resolve() == folder.resolve():
                continue
            found[f"{key}-{_digest(folder)}" if key in found else key] = folder
    return found


def check_folders(roots: Sequence[Path]) -> None:
    """Raise JobError for a folder that is not there, or if there is no job in any."""
    for root in roots:
        if not root.is_dir():
            what = "is a file, expected a folder" if root.exists() else "there is no such folder"
            raise JobError(f"{root}: {what}; name the folder of a job, or one that has jobs in it")
    if not job_folders(roots):
        names = ", ".join(map(str, roots))
        raise JobError(
            f"{names}: no job in it; looked for {JOB} there, in its folders and in theirs. "
            "`seatrial run -o FOLDER` makes a job"
        )


def _jobs_in(folder: Path, depth: int = _DEPTH) -> Iterator[Path]:
    if os.path.isfile(folder / JOB):  # noqa: PTH113 - a Path raises where this user may not look
        yield folder
    elif depth:
        for each in _folders_in(folder):
            yield from _jobs_in(each, depth - 1)


def _folders_in(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            names = [each.name for each in entries if each.name[0] != "." and each.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return [folder / name for name in sorted(names)]


def _key(root: Path, folder: Path) -> str:
    parts = folder.relative_to(root).parts or (folder.resolve().name,)
    key = "~".join(_UNFIT.sub("-", part) for part in parts)
    return key if key == "~".join(parts) else f"{key}-{_digest(folder)}"


def _digest(folder: Path) -> str:
    return hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:8]
