"""Counting a job's records: which of them are sound, and what lies in the place of the others.

The index saves the reading of a record whose file is still the one it was written about. Every other record is read,
and counts only if it is whole and of this job. What does not count is named; it is never a reason to count nothing.
"""

import errno
import gc
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from pydantic import ValidationError

from seatrial.model.record import SCHEMA_VERSION, TrialRecord
from seatrial.store.draft import RECORD
from seatrial.store.files import read_plain
from seatrial.store.index import Index, Stamp, TrialEntry, entry_of, stamp_of
from seatrial.store.revisions import REVISIONS, Revisions, revision_name
from seatrial.store.roster import Roster

_MAX_RECORD_BYTES = 256 * 2**20
_WORTH_A_CHECKPOINT = 2**18  # bytes of the index: about a thousand trials, which take a few hundredths of a second
_trial_id = attrgetter("trial_id")
_OUR_OWN_TROUBLE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


@dataclass(frozen=True, slots=True)
class Uncounted:
    """What is in the place of a trial's record, and why it does not count. A `planned` trial can be run again.

    Where it is a later `revision`, the one before it counts instead.
    """

    trial_id: str
    reason: str
    planned: bool
    revision: int = 0


@dataclass(frozen=True, slots=True)
class Census:
    """The trials of a job that count and what does not count, both in the order of their ids.

    `unindexed` are the lines that would have saved reading a record.
    """

    entries: list[TrialEntry]
    uncounted: list[Uncounted]
    unindexed: list[bytes]


class Records:
    """The records of one job: of its trials, and of their later revisions, of which the newest counts."""

    def __init__(self, job: Path, roster: Roster, index: Index) -> None:
        self._trials = job / "trials"
        self.revisions = Revisions(job / REVISIONS)
        self._folder, self._later = str(self._trials), str(job / REVISIONS)  # made into text once, for all records
        self._roster = roster
        self._index = index

    def count(self, content: bytes, checkpoint: bytes = b"") -> Census:
        """Count what is in the folder, with the help of its index and a checkpoint. Raises OSError for the folder."""
        census, folders, later = Census([], [], []), self._folders(), self.revisions.numbers()
        has, add = self._roster.has, census.entries.append  # asked of every trial
        with collector_paused():
            known = self._index.read(content, self._newest_stamps(later), checkpoint)
            for name, entry in known.items():
                is_folder = folders.pop(name, None)
                if entry is not None and is_folder and has(entry.task_id, entry.agent, entry.attempt):
                    add(entry)
                elif is_folder is not None:
                    self._count_record(name, later.get(name, ()), census)
                elif self._roster.wants(name):
                    census.uncounted.append(self._uncounted(name, "its folder is gone, though the index names it"))
            for name in folders:
                self._count_record(name, later.get(name, ()), census)
        census.entries.sort(key=_trial_id)
        census.uncounted.sort(key=_trial_id)
        return census

    def checkpoint(self, content: bytes, last: bytes) -> bytes | None:
        """A checkpoint of an index; None where the last one is about nearly all of it."""
        if self._index.bytes_after(last, content) < _WORTH_A_CHECKPOINT:
            return None
        with collector_paused():
            return self._index.checkpoint(content, last)

    def believed(self, content: bytes) -> list[TrialEntry]:
        """The trials that lines of the index are about, as far as those can be believed."""
        known = self._index.read(content, self._newest_stamps(self.revisions.numbers()))
        found = [entry for entry in known.values() if entry is not None]
        return [entry for entry in found if self._roster.has(entry.task_id, entry.agent, entry.attempt)]

    def examine(self, trial_id: str, revision: int = 0) -> TrialRecord | Uncounted:
        """A trial's record of some revision, or what is there instead of one that counts."""
        folder = self.place(trial_id, revision)
        try:
            if not folder.is_dir() or folder.is_symlink():
                return self._uncounted(trial_id, "it is no folder", revision)
            content = read_plain(folder / RECORD, _MAX_RECORD_BYTES)
        except OSError as error:
            if error.errno in _OUR_OWN_TROUBLE:
                raise
            return self._uncounted(trial_id, _unreadable(error), revision)
        try:
            record = TrialRecord.model_validate_json(content)
        except ValidationError as error:
            return self._uncounted(trial_id, _what_is_wrong(content, error), revision)
        objection = self._roster.objection(record, trial_id)
        if record.revision != revision:
            objection = objection or f"it holds revision {record.revision}, expected {revision}"
        return self._uncounted(trial_id, objection, revision) if objection else record

    def place(self, trial_id: str, revision: int) -> Path:
        """Where a revision of a trial is."""
        folder = self.revisions.folder if revision else self._trials
        return folder / revision_name(trial_id, revision)

    def entry(self, record: TrialRecord) -> TrialEntry:
        """What lists and summaries need of a record."""
        return entry_of(record, self._roster.agent_of(record))

    def line(self, record: TrialRecord) -> bytes:
        """The line of the index for a record that is in its place; none when it is there no more."""
        stamp = self._stamp(record.trial_id, record.revision)
        return b"" if stamp is None else self._index.line(self.entry(record), stamp)

    def _folders(self) -> dict[str, bool]:
        """What is there, and whether it is a folder."""
        with os.scandir(self._trials) as found:
            # Names with a dot in front are not ours: desktops and network file systems leave them.
            return {each.name: each.is_dir(follow_symlinks=False) for each in found if each.name[0] != "."}

    def _newest_stamps(self, later: Mapping[str, Sequence[int]]) -> Callable[[str], Stamp | None]:
        """The stamp of a trial's newest record, to be asked of every trial."""
        folder, stamp = self._folder, stamp_of

        def newest(trial_id: str) -> Stamp | None:
            if trial_id in later:
                return self._stamp(trial_id, later[trial_id][-1])
            return stamp(f"{folder}/{trial_id}/{RECORD}")

        return newest

    def _stamp(self, trial_id: str, revision: int) -> Stamp | None:
        if revision:
            return stamp_of(f"{self._later}/{revision_name(trial_id, revision)}/{RECORD}")
        return stamp_of(f"{self._folder}/{trial_id}/{RECORD}")

    def _count_record(self, name: str, later: Sequence[int], census: Census) -> None:
        for revision in (*reversed(later), 0):
            # The stamp first: a record that is changed while it is read must not be taken for what was read.
            stamp, found = self._stamp(name, revision), self.examine(name, revision)
            if isinstance(found, Uncounted):
                census.uncounted.append(found)
                continue
            entry = self.entry(found)
            census.entries.append(entry)
            if stamp is not None:
                census.unindexed.append(self._index.line(entry, stamp))
            return

    def _uncounted(self, trial_id: str, reason: str, revision: int = 0) -> Uncounted:
        return Uncounted(trial_id, reason, self._roster.wants(trial_id) and not revision, revision)


@contextmanager
def collector_paused() -> Iterator[None]:
    """For what makes many objects of which hardly any is part of a cycle: looking for one among 100,000 entries doubles
    what they cost.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _unreadable(error: OSError) -> str:
    if error.errno == errno.ENOENT:
        return f"there is no {RECORD} in it"
    if error.errno == errno.ELOOP:
        return f"its {RECORD} is a link, expected a plain file"
    return f"its {RECORD} cannot be read: {error.strerror or error}"


def _what_is_wrong(content: bytes, error: ValidationError) -> str:
    if not content.strip():
        return f"its {RECORD} is empty"
    try:
        table = json.loads(content)
    except (ValueError, RecursionError):
        return f"its {RECORD} is no whole JSON"
    version = table.get("schema_version") if isinstance(table, dict) else None
    if isinstance(version, int) and version > SCHEMA_VERSION:
        return f"its {RECORD} has version {version}, and this Seatrial reads up to {SCHEMA_VERSION}"
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"])) or "the file"
    return f"its {RECORD} is damaged ({where}: {first['msg']})"
