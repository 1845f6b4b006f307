"""The journal of what reviewers said: lines that are only ever added, by any number of writers at once."""

import fcntl
import os
from collections.abc import Callable
from typing import Annotated

from pydantic import Field, ValidationError

from seatrial.model.annotation import Annotation
from seatrial.model.base import StrictModel
from seatrial.store.files import read_plain, storing, write_all
from seatrial.store.job_store import JobStore

_MAX_BYTES = 2**30

ANNOTATIONS = "annotations.jsonl"


class _Line(StrictModel):
    trial_id: Annotated[str, Field(min_length=1)]
    annotation: Annotation


def append_annotation(store: JobStore, trial_id: str, annotation: Annotation) -> None:
    """Add a verdict on a finished trial; it is on the disk on return. Raises JobError when there is no such trial."""
    store.trial_folder(trial_id)
    line = _Line(trial_id=trial_id, annotation=annotation).model_dump_json().encode() + b"\n"
    path = store.path / ANNOTATIONS
    with storing(path):
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            write_all(file, (b"\n" if _is_torn(file) else b"") + line)
            os.fsync(file)
        finally:
            os.close(file)


def _is_torn(file: int) -> bool:
    """Whether a crash or a full disk cut the last line: without a line end, the next one would be lost with it."""
    size = os.fstat(file).st_size
    return size > 0 and os.pread(file, 1, size - 1) != b"\n"


def _ignore(_: str) -> None:
    pass


def read_annotations(store: JobStore, damaged: Callable[[str], None] = _ignore) -> dict[str, list[Annotation]]:
    """Every verdict by trial id, in the order they were given. Each line that is damaged is told and passed over."""
    found: dict[str, list[Annotation]] = {}
    path = store.path / ANNOTATIONS
    with storing(path):
        content = read_plain(path, _MAX_BYTES) if path.exists() else b""
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line:
            continue
        try:
            read = _Line.model_validate_json(line)
        except ValidationError as error:
            damaged(f"{path}, line {number}: is damaged and left out ({error.errors()[0]['msg']})")
            continue
        found.setdefault(read.trial_id, []).append(read.annotation)
    return found
