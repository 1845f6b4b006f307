"""Which files make up a job, so that nothing else is written over them."""

from pathlib import Path

from seatrial.store.annotations import ANNOTATIONS
from seatrial.store.index_file import CHECKPOINT, INDEX
from seatrial.store.job_mark import JOB
from seatrial.store.open_regrade import REGRADE
from seatrial.store.revisions import REVISIONS
from seatrial.store.seal import SEAL

_FILES = (JOB, SEAL, INDEX, CHECKPOINT, ANNOTATIONS, REGRADE, ".lock")
_PARTS = frozenset({*_FILES, REVISIONS, "trials", "tries", ".drafts", "contents", "damaged"})


def job_with_part(path: Path) -> Path | None:
    """The folder of the job that a file is a part of, or would be; None for any other, also if it lies beside them."""
    place = path.parent.resolve() / path.name
    below = place.name
    for folder in place.parents:
        if below in _PARTS and (folder / JOB).is_file():
            return folder
        below = folder.name
    return None
