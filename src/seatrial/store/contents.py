"""Contents that several trials of a job have in common are on the disk once, under as many names.

Each trial's folder has a name of its own for each, so a folder that is copied or a job's `contents/` that is removed
takes nothing from anybody.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_POOL = "contents"
_KEPT = "snapshot.files"


def share_contents(folder: Path, job: Path) -> None:
    """Let the large files of end states below a trial's folder be those which the job has already, by their digests.

    Where a file system has no second names for a file, everything stays as it is.
    """
    for path in _contents(folder):
        with suppress(OSError):
            _share(path, job / _POOL / path.name)


def _contents(folder: Path) -> Iterator[Path]:
    places = [folder]
    with suppress(OSError):
        places += (folder / "steps").iterdir()
    for place in places:
        with suppress(OSError):
            yield from list((place / _KEPT).iterdir())


def _share(path: Path, known: Path) -> None:
    known.parent.mkdir(exist_ok=True)
    try:
        known.hardlink_to(path)
    except FileExistsError:
        if not known.samefile(path) and known.stat().st_size == path.stat().st_size:
            second = path.with_suffix(".known")
            second.hardlink_to(known)
            second.replace(path)
