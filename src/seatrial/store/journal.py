"""Journals beside the records: lines that are only ever added, by any number of writers at once.

What reviewers say is in one, what judges answer in another. A reader that comes again reads only what was added since;
where the file is otherwise than longer, it reads all of it. A line that is there twice, as after two merges at once,
counts once.
"""

import fcntl
import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import ValidationError

from seatrial.model.assessment import Assessment
from seatrial.model.evaluation import Annotation
from seatrial.model.record import TrialRecord
from seatrial.model.review import ReviewEntry
from seatrial.store.files import storing, write_all
from seatrial.untrusted.files import CREATE, open_file

_MAX_BYTES = 2**30
_TAIL = 64
"""So many bytes at the end of what was read are compared: another journal may have been copied over this one."""

ANNOTATIONS = "annotations.jsonl"
ASSESSMENTS = "assessments.jsonl"
BEHAVIOUR = "behaviour.jsonl"


E = TypeVar("E", ReviewEntry, Assessment)
Said = Mapping[str, Sequence[E]]
"""Every entry by the id of its trial, in the order of the journal."""


def ignore_damage(_: str) -> None:
    """For those who read what is sound and have nobody to tell of the rest."""


class Journal(Generic[E]):
    """A journal of one job, whose lines are of one type."""

    def __init__(self, path: Path, kind: type[E]) -> None:
        self._path = path
        self._kind: type[E] = kind
        self._reading = threading.Lock()  # two threads that catch up at once would take every line twice
        self._begin()

    def append(self, *entries: E) -> None:
        """Add entries; they are on the disk on return. Raises StoreError."""
        line = b"".join(entry.model_dump_json(exclude_defaults=True).encode() + b"\n" for entry in entries)
        with storing(self._path):
            file = os.open(self._path, os.O_RDWR | os.O_APPEND | CREATE, 0o666)
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                write_all(file, (b"\n" if _is_torn(file) else b"") + line)
                os.fsync(file)
            finally:
                os.close(file)

    def read(self, damaged: Callable[[str], None] = ignore_damage) -> Said[E]:
        """What was said so far. Each line that is damaged is told and passed over. Raises StoreError."""
        with self._reading, storing(self._path):
            self._catch_up()
            said = {trial_id: tuple(entries) for trial_id, entries in self._said.items()}
            complaints = [*self._complaints]
        for complaint in complaints:
            damaged(complaint)
        return said

    def read_one(self, trial_id: str) -> list[E]:
        """What was said of one trial, without keeping what was said of all others. Raises StoreError."""
        named = json.dumps(trial_id, ensure_ascii=False).encode()
        found: list[E] = []
        with storing(self._path):
            if not os.path.lexists(self._path):
                return []
            with open_file(self._path, _MAX_BYTES) as file:
                for line in file:
                    if named not in line:
                        continue
                    with suppress(ValidationError):  # `read` tells of damage
                        read = self._kind.model_validate_json(line)
                        if read.trial_id == trial_id and all(read.key != each.key for each in found):
                            found.append(read)
        return found

    def _begin(self) -> None:
        self._stamp: tuple[int, int, int] | None = None
        self._read_bytes = self._read_lines = 0
        self._torn = False
        self._tail = b""
        self._seen: set[tuple[str, str]] = set()
        self._said: dict[str, list[E]] = {}
        self._complaints: list[str] = []

    def _catch_up(self) -> None:
        try:
            found = os.lstat(self._path)
        except FileNotFoundError:
            self._begin()
            return
        if (found.st_ino, found.st_size, found.st_mtime_ns) == self._stamp:
            return
        is_longer = self._stamp and found.st_ino == self._stamp[0] and found.st_size > self._read_bytes
        if self._torn or not is_longer:
            self._begin()
        content, status = _read_from(self._path, self._read_bytes - len(self._tail))
        if not content.startswith(self._tail):
            self._begin()
            content, status = _read_from(self._path, 0)
        content = content.removeprefix(self._tail)
        self._take(content)
        self._read_bytes += len(content)
        self._tail = (self._tail + content[-_TAIL:])[-_TAIL:]
        self._torn = bool(content) and not content.endswith(b"\n")
        self._stamp = status.st_ino, self._read_bytes, status.st_mtime_ns

    def _take(self, content: bytes) -> None:
        for line in content.removesuffix(b"\n").split(b"\n") if content else ():
            self._read_lines += 1
            if not line:
                continue
            try:
                read = self._kind.model_validate_json(line)
            except ValidationError as error:
                reason = error.errors()[0]["msg"]
                self._complaints.append(f"{self._path}, line {self._read_lines}: is damaged and left out ({reason})")
                continue
            if (read.trial_id, read.key) not in self._seen:
                self._seen.add((read.trial_id, read.key))
                self._said.setdefault(read.trial_id, []).append(read)


def annotation_journal(folder: Path) -> Journal[ReviewEntry]:
    """What reviewers said of the trials of a job."""
    return Journal(folder / ANNOTATIONS, ReviewEntry)


def assessment_journal(folder: Path) -> Journal[Assessment]:
    """What judges answered about the trials of a job."""
    return Journal(folder / ASSESSMENTS, Assessment)


def behaviour_journal(folder: Path) -> Journal[Assessment]:
    """How the turns of trials were classified, by rules and by judges; apart, for it has a line on every turn."""
    return Journal(folder / BEHAVIOUR, Assessment)


def with_annotations(record: TrialRecord, said: Sequence[Annotation]) -> TrialRecord:
    """A record with what reviewers said of it in its evaluation; one that was never judged has no place for it."""
    if not said or record.evaluation is None:
        return record
    every = [*(record.evaluation.annotations or ()), *said]
    return record.model_copy(update={"evaluation": record.evaluation.model_copy(update={"annotations": every})})


def _read_from(path: Path, start: int) -> tuple[bytes, os.stat_result]:
    """What a file says from a byte on, and its status before it was read."""
    with open_file(path, _MAX_BYTES) as file:
        status = os.fstat(file.fileno())
        file.seek(start)
        return file.read(max(0, status.st_size - start)), status


def _is_torn(file: int) -> bool:
    """Whether a crash or a full disk cut the last line: without a line end, the next one would be lost with it."""
    size = os.fstat(file).st_size
    return size > 0 and os.pread(file, 1, size - 1) != b"\n"
