"""Counting a job's records: which of them are sound, and what is in the place of the others.

The index (`index.py`) saves the reading of a record whose file is still the one it was written about. Every other
record is read, and counts only if it is whole and of this job. What does not count is named; it is never a reason to
count nothing. Trials that are run again are moved aside here, and nothing is ever removed.
"""

import errno
import gc
import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from seatrial.errors import JobError
from seatrial.model.base import trial_id, trial_stem
from seatrial.model.job import JobFile
from seatrial.model.record import SCHEMA_VERSION, TrialRecord
from seatrial.store.drafts import RECORD, REVISIONS, Revisions, move_to_tries, revision_name
from seatrial.store.files import storing, sync_folder
from seatrial.store.index import Index, Stamp, TrialEntry, entry_of, forget_line, stamp_of
from seatrial.untrusted.files import read_file
from seatrial.untrusted.json import first_fault

MAX_RECORD_BYTES = 256 * 2**20
_trial_id = attrgetter("trial_id")
_NAMED = 3
_OUR_OWN_TROUBLE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


@dataclass(frozen=True, slots=True)
class Uncounted:
    """What is in the place of a trial's record, and why it does not count. A `planned` trial can be run again.

    Where it is a later `revision`, the one before it counts instead. The record of a `newer` version of Seatrial is
    sound, only not for us: its trial is left as it is.
    """

    trial_id: str
    reason: str
    planned: bool
    revision: int = 0
    newer: bool = False


class Census(NamedTuple):
    """The trials of a job that count and what does not count, both in the order of their ids.

    `unindexed` are the lines that would have saved reading a record.
    """

    entries: list[TrialEntry]
    uncounted: list[Uncounted]
    unindexed: list[bytes]

    @property
    def newer(self) -> set[str]:
        """The trials of which a newer version of Seatrial has made a record: no older one may touch them."""
        return {found.trial_id for found in self.uncounted if found.newer}

    @property
    def taken(self) -> set[str]:
        """The trials that are not to be run: those that count, and those of a newer version."""
        return {entry.trial_id for entry in self.entries} | self.newer


# The trials that a job wants. Records are copied, renamed and brought from elsewhere: one that was not made by this job
# for this trial says nothing about it.


class _Wanted(NamedTuple):
    digest: str
    attempt: int


class ExpectedTrials:
    """The trials that a job's file amounts to."""

    def __init__(self, file: JobFile) -> None:
        self._file = file
        without = {(entry.task, entry.agent) for entry in file.left_out}
        self._agents = tuple(agent.title for agent in file.spec.agents)
        self._attempts = file.spec.attempts
        every = ((task, agent) for task in file.tasks for agent in self._agents)
        self._pairs = {(task.id, agent): task.digest for task, agent in every if (task.id, agent) not in without}

    def has(self, task: str, agent: str, attempt: int) -> bool:
        """Whether the job wants this attempt of an agent at a task."""
        return attempt <= self._attempts and (task, agent) in self._pairs

    def wants(self, name: str) -> bool:
        """Whether the job wants a trial of this id."""
        return name in self._wanted

    def agent_of(self, record: TrialRecord) -> str:
        """What the job calls the record's agent: records know its name, only the job tells two of a name apart."""
        if len(self._agents) == 1:
            return self._agents[0]
        ids = (title for title in self._agents if trial_id(record.task.id, title, record.attempt) == record.trial_id)
        return next(ids, record.agent.name)

    def objection(self, record: TrialRecord, name: str) -> str | None:
        """Why a record is not that of the trial of this id, in a few words; None when it is."""
        wanted = self._wanted.get(name)
        if record.trial_id != name:
            return f"it holds the record of another trial, {record.trial_id}"
        if not self._made_here(record):
            return f"its record was made by another job ({record.job or 'it has no name'})"
        if wanted is None:
            return "the job wants no trial of this name"
        if record.task.digest != wanted.digest:
            found, expected = record.task.digest[:12], wanted.digest[:12]
            return f"its record is of another content of the task (digest {found}, the job has {expected})"
        if record.attempt != wanted.attempt:
            return f"its record is of attempt {record.attempt}, expected {wanted.attempt}"
        return None

    def _made_here(self, record: TrialRecord) -> bool:
        named = record.job is None or record.job == self._file.spec.name
        return named and (self._file.id is None or record.job_id == self._file.id)

    @cached_property
    def _wanted(self) -> Mapping[str, _Wanted]:
        return {
            f"{before}{attempt}{after}": _Wanted(digest, attempt)
            for (task, agent), digest in self._pairs.items()
            for before, after in (trial_stem(task, agent),)
            for attempt in range(1, self._attempts + 1)
        }


# The records.


class Records:
    """The records of one job: of its trials, and of their later revisions, of which the newest counts."""

    def __init__(self, job: Path, expected: ExpectedTrials, index: Index) -> None:
        self._trials = job / "trials"
        self.revisions = Revisions(job / REVISIONS)
        self._folder, self._later = str(self._trials), str(job / REVISIONS)  # made into text once, for all records
        self._expected = expected
        self._index = index

    def count(self) -> Census:
        """Count what is in the folder, with the help of its index. Raises OSError for the folder."""
        census, folders, later = Census([], [], []), self._folders(), self.revisions.numbers()
        has, add = self._expected.has, census.entries.append  # asked of every trial
        with collector_paused():
            known = self._index.read(self._index.lines(), self._newest_stamps(later))
            for name, entry in known.items():
                is_folder = folders.pop(name, None)
                if entry is not None and is_folder and has(entry.task_id, entry.agent, entry.attempt):
                    add(entry)
                elif is_folder is not None:
                    self._count_record(name, later.get(name, ()), census)
                elif self._expected.wants(name):
                    census.uncounted.append(self._uncounted(name, "its folder is gone, though the index names it"))
            for name in folders:
                self._count_record(name, later.get(name, ()), census)
        census.entries.sort(key=_trial_id)
        census.uncounted.sort(key=_trial_id)
        return census

    def added_since(self, start: int, limit: int) -> tuple[list[TrialEntry], int]:
        """The trials of the index's lines from a byte on, of at most so many bytes, and where these end."""
        lines = self._index.lines_from(start, limit)
        known = self._index.read(lines, self._newest_stamps(self.revisions.numbers()))
        found = [entry for entry in known.values() if entry is not None]
        wanted = [entry for entry in found if self._expected.has(entry.task_id, entry.agent, entry.attempt)]
        return wanted, start + len(lines)

    def note(self, records: Sequence[TrialRecord]) -> None:
        """Add the lines of records that are in their places to the index."""
        self._index.append(b"".join(map(self._line, records)))

    def forget(self, trial_id: str) -> None:
        """Keep the index from naming a trial whose folder is about to go. First: after a crash, its record is read."""
        self._index.append(forget_line(trial_id))

    def mend_index(self, census: Census) -> None:
        """Add the lines a crash has kept from being written, so that only the next reader pays for them."""
        torn = self._index.lines()[-1:] not in (b"", b"\n")
        if census.unindexed or torn:
            self._index.append((b"\n" if torn else b"") + b"".join(census.unindexed))

    def examine(self, trial_id: str, revision: int = 0) -> TrialRecord | Uncounted:
        """A trial's record of some revision, or what is there instead of one that counts."""
        folder = self.place(trial_id, revision)
        try:
            if not folder.is_dir() or folder.is_symlink():
                return self._uncounted(trial_id, "it is no folder", revision)
            content = read_file(folder / RECORD, MAX_RECORD_BYTES)
        except OSError as error:
            if error.errno in _OUR_OWN_TROUBLE:
                raise
            return self._uncounted(trial_id, _unreadable(error), revision)
        try:
            record = TrialRecord.model_validate_json(content)
        except ValidationError as error:
            reason = newer_than_us(content, error, SCHEMA_VERSION)
            if reason is None:
                return self._uncounted(trial_id, _what_is_wrong(content, error), revision)
            reason = f"its {RECORD} {reason}"
            return Uncounted(trial_id, reason, planned=False, revision=revision, newer=True)
        objection = self._expected.objection(record, trial_id)
        if record.revision != revision:
            objection = objection or f"it holds revision {record.revision}, expected {revision}"
        return self._uncounted(trial_id, objection, revision) if objection else record

    def place(self, trial_id: str, revision: int) -> Path:
        folder = self.revisions.folder if revision else self._trials
        return folder / revision_name(trial_id, revision)

    def entry(self, record: TrialRecord) -> TrialEntry:
        return entry_of(record, self._expected.agent_of(record))

    def _line(self, record: TrialRecord) -> bytes:
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
        unsound: list[Uncounted] = []
        for revision in (*reversed(later), 0):
            # The stamp first: a record that is changed while it is read must not be taken for what was read.
            stamp, found = self._stamp(name, revision), self.examine(name, revision)
            if isinstance(found, Uncounted):
                unsound.append(found)
                continue
            entry = self.entry(found)
            census.entries.append(entry)
            if stamp is not None:
                census.unindexed.append(self._index.line(entry, stamp))
            break
        if any(found.newer for found in unsound):
            unsound = [replace(found, planned=False) for found in unsound]
        census.uncounted.extend(unsound)

    def _uncounted(self, trial_id: str, reason: str, revision: int = 0) -> Uncounted:
        return Uncounted(trial_id, reason, self._expected.wants(trial_id) and not revision, revision)


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
        json.loads(content)
    except (ValueError, RecursionError):
        return f"its {RECORD} is no whole JSON"
    return f"its {RECORD} is damaged ({first_fault(error, 'the file')})"


def newer_than_us(content: bytes, error: ValidationError, known: int) -> str | None:
    """What shows that a newer Seatrial wrote some stored JSON; None for any that this one should be able to read.

    A version only rises where older ones cannot ignore what is new, so unknown fields alone are a sign of it, too.
    """
    faults = error.errors(include_url=False, include_input=False)
    if all(fault["type"] == "extra_forbidden" for fault in faults):
        names = ", ".join(".".join(map(str, fault["loc"])) for fault in faults[:_NAMED])
        return f"has fields that this Seatrial does not know ({names}): a newer one wrote it"
    try:
        table = json.loads(content)
    except (ValueError, RecursionError):
        return None
    version = table.get("schema_version") if isinstance(table, dict) else None
    if not isinstance(version, int) or version <= known:
        return None
    return f"has version {version}, and this Seatrial reads up to {known}"


# Trials that are run again.

DAMAGED = "damaged"


def refuse_result(record: TrialRecord) -> None:
    """Raises JobError for a trial that counts: a result is never run again until it suits."""
    if record.outcome not in ("infrastructure_error", "cancelled") and not record.never_ran:
        raise JobError(
            f"{record.trial_id}: ended as {record.outcome}, which counts; only what the infrastructure failed is run "
            "again, and agents that never really ran"
        )


def move_to_damaged(job: Path, sources: Records, trial_ids: Collection[str]) -> None:
    """Move what is in the place of these trials' records to `damaged/`, with later revisions."""
    aside = job / DAMAGED
    with storing(aside):
        aside.mkdir(exist_ok=True)
        for trial_id in trial_ids:
            for revision in sources.revisions.of(trial_id):
                sources.place(trial_id, revision).rename(_free_name(aside, trial_id))
            if os.path.lexists(job / "trials" / trial_id):  # else its folder is gone
                (job / "trials" / trial_id).rename(_free_name(aside, trial_id))
        sync_folder(aside)
        sync_folder(job / "trials")
    sources.revisions.forget()


def move_trial_to_tries(job: Path, sources: Records, record: TrialRecord) -> None:
    """Move a trial to the tries; its later revisions go with it, inside its folder."""
    folder = job / "trials" / record.trial_id
    with storing(job / "tries"):
        for revision in sources.revisions.of(record.trial_id):
            sources.place(record.trial_id, revision).rename(folder / f"revision-{revision}")
        sources.revisions.forget()
        move_to_tries(folder, str(job), record.trial_id, record.tries)
        sync_folder(job / "tries")
        sync_folder(job / "trials")


def _free_name(folder: Path, name: str) -> Path:
    """A name in a folder that nothing has yet; renaming would replace a file, and nothing may get lost."""
    names = (folder / f"{name}.{number}" for number in count(1))
    return next(path for path in names if not os.path.lexists(path))
