"""A job's folder: what is in it, who may write to it, and what has been finished.

    job.json               the spec, and the lock of what it meant
    trials/<trial id>/     a finished trial: record.json beside everything the trial left
    tries/<trial id>.<n>/  a try that the machinery failed and that was repeated
    revisions/<trial id>.<n>/  the same trial judged again: record.json beside what the verifier left that time
    damaged/<trial id>.<n> what was in the place of a record and did not count, since the trial was run again
    annotations.jsonl      what reviewers said
    assessments.jsonl      what judges answered
    behaviour.jsonl        how turns were classified
    index.jsonl            a cache of the records
    .drafts/  .lock        trials being written; who is at work

A trial exists once its folder is in trials/, and never before. Where it has later revisions, the newest counts.
"""

import datetime as dt
import errno
import json
import os
import secrets
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field, ValidationError

from seatrial.errors import JobError, StoreError
from seatrial.model.assessment import Assessment
from seatrial.model.base import Sha256, StrictModel, Timestamp, to_json
from seatrial.model.evaluation import Annotation
from seatrial.model.job import JOB_SCHEMA_VERSION, JobFile
from seatrial.model.record import TrialRecord
from seatrial.model.review import ReviewEntry, new_entry_id, not_taken_back
from seatrial.store.drafts import LAST_REVISION, REVISIONS, Draft, revision_name
from seatrial.store.files import JOB, locked, remove_tree, replace_file, storing
from seatrial.store.index import INDEX, Index, TrialEntry
from seatrial.store.journal import (
    ANNOTATIONS,
    ASSESSMENTS,
    BEHAVIOUR,
    annotation_journal,
    assessment_journal,
    behaviour_journal,
    ignore_damage,
    with_annotations,
)
from seatrial.store.records import (
    DAMAGED,
    Census,
    ExpectedTrials,
    Records,
    Uncounted,
    move_to_damaged,
    move_trial_to_tries,
    newer_than_us,
    refuse_result,
)
from seatrial.store.seal import SEAL, add_seal, has_seal
from seatrial.untrusted.files import read_file
from seatrial.untrusted.json import first_fault

_FOLDERS = ("trials", "tries", ".drafts")


class StoredRevision(NamedTuple):
    """A record that counts, and the folder that it is in, with what its verifier left."""

    record: TrialRecord
    folder: Path


class JobStore:
    """One job's folder."""

    def __init__(self, path: Path, file: JobFile, content: bytes) -> None:
        self.path = path
        self.file = file
        self._content = content
        self._journal = annotation_journal(path)
        self._assessments = assessment_journal(path)
        self._behaviour = behaviour_journal(path)
        self._records: Records | None = None
        self._counted: set[str] | None = None  # while the lock is held, and nobody else adds to it

    @classmethod
    def create(cls, folder: Path, file: JobFile) -> "JobStore":
        """A new job. Raises JobError when the folder holds one already, or something else."""
        ensure_free(folder)
        check_size(folder, file)
        content = to_json(file)
        make_folders(folder, _FOLDERS)
        with storing(folder), locked(folder):
            ensure_free(folder)
            made = cls(folder, file, content)
            made.make_own()
            replace_file(folder / JOB, content)
        return made

    @classmethod
    def open(cls, folder: Path) -> "JobStore":
        """The job in a folder. Raises JobError that says why there is none to be read."""
        return cls(folder, *read_job_file(folder))

    @property
    def exists(self) -> bool:
        """Whether the job is there; one that was refused before its first trial is not."""
        return (self.path / JOB).exists()

    @property
    def is_own(self) -> bool:
        """Whether job.json is as this user wrote it, on this machine; see `seal.py`."""
        return has_seal(self.path, self._content)

    def make_own(self) -> None:
        """Vouch for job.json as it is, so that nobody asks again; where that cannot be kept, it will be asked again.

        An index that is there already was written by others. It goes first: with the seal, it would be believed.
        """
        self._records = None
        with suppress(OSError):
            (self.path / INDEX).unlink(missing_ok=True)
            add_seal(self.path, self._content)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Be the only one who carries out this job. Raises JobError when someone else does.

        What a crash left half done is cleared away first.
        """
        with locked(self.path):
            with storing(self.path):
                for name in _FOLDERS:
                    self._refuse_link(self.path / name)
                    (self.path / name).mkdir(exist_ok=True)
                for draft in (self.path / ".drafts").iterdir():
                    remove_tree(draft)
            census = self.census()
            self._sources.mend_index(census)
            self._counted = {entry.trial_id for entry in census.entries}
            try:
                yield
            finally:
                self._counted = None

    def update(self, file: JobFile) -> None:
        """Replace job.json, all at once. It stays this user's own if it was."""
        check_size(self.path, file)
        content = to_json(file)
        with storing(self.path / JOB):
            if self.is_own:
                add_seal(self.path, content)
            replace_file(self.path / JOB, content)
        self.file, self._content, self._records = file, content, None

    def discard(self) -> None:
        """Remove a job that has no trial, by whoever has its lock, so that the folder is free again."""
        if self.finished():
            return
        with suppress(OSError):
            for name in (JOB, SEAL, INDEX, ".lock"):
                (self.path / name).unlink(missing_ok=True)
            for name in _FOLDERS:
                remove_tree(self.path / name)
            self.path.rmdir()

    def _refuse_link(self, path: Path) -> None:
        # What is in a stranger's folder is cleared away and written to, and must not be somewhere else.
        if path.is_symlink():
            raise JobError(f"{path}: is a link to {str(path.readlink())!r}, expected a folder; put one in its place")

    def finished(self) -> set[str]:
        """The ids of all trials that have a record which counts."""
        if self._counted is not None:
            return set(self._counted)
        return {entry.trial_id for entry in self.entries()}

    def tries(self) -> dict[str, int]:
        """How many tries of each trial the machinery has failed so far; trials without one are not in it."""
        found: dict[str, int] = {}
        with storing(self.path / "tries"), suppress(FileNotFoundError):
            for name in os.listdir(self.path / "tries"):  # noqa: PTH208 - names only
                trial, _, number = name.rpartition(".")
                if trial and number.isdecimal():
                    found[trial] = max(found.get(trial, 0), int(number))
        return found

    @contextmanager
    def draft(self, trial_id: str, revision: int = 0) -> Iterator[Draft]:
        """A folder to write a trial or a later revision into; it is gone after the block unless it was committed."""
        draft = self.begin_draft(trial_id, revision)
        try:
            yield draft
        finally:
            draft.discard()

    def begin_draft(self, trial_id: str, revision: int = 0) -> Draft:
        """The same for callers that discard it themselves."""
        path = self.path / f".drafts/{trial_id}.{secrets.token_hex(4)}"
        with storing(path):
            path.mkdir()
            if revision:
                self._refuse_link(self.path / REVISIONS)
                (self.path / REVISIONS).mkdir(exist_ok=True)
        return Draft(path, trial_id, str(self.path), self._note, self.file.id, revision)

    def record(self, trial_id: str) -> TrialRecord:
        """A trial's record, the newest one that counts, with what reviewers said among its evaluation's annotations.

        Raises JobError with similar ids when there is none, StoreError when none counts. To store a record again take
        it from `revisions`, which has it as it was stored: the journal keeps what reviewers say.
        """
        said = _annotations(self._journal.read().get(trial_id, ()))
        return with_annotations(self.revisions(trial_id)[-1].record, said)

    def annotate(self, trial_id: str, annotation: Annotation) -> ReviewEntry:
        """Add a reviewer's verdict on a finished trial; it is on the disk on return, and changes no reward.

        Needs no lock. Raises JobError with similar ids when there is no such trial.
        """
        entry = ReviewEntry(id=new_entry_id(), trial_id=trial_id, annotation=annotation)
        self.add_reviews(entry)
        return entry

    def add_reviews(self, *entries: ReviewEntry) -> None:
        """Add entries to the journal, as `annotate` adds one."""
        for trial_id in {entry.trial_id for entry in entries}:
            self.trial_folder(trial_id)
        self._journal.append(*entries)

    def reviews(self, damaged: Callable[[str], None] = ignore_damage) -> dict[str, list[ReviewEntry]]:
        """The whole journal by the ids of trials, with verdicts that were taken back and how each came about."""
        return {trial_id: [*entries] for trial_id, entries in self._journal.read(damaged).items()}

    def annotations(self, damaged: Callable[[str], None] = ignore_damage) -> dict[str, list[Annotation]]:
        """What reviewers said so far by the ids of trials, in order, without what they took back.

        `damaged` is told of lines that cannot be read.
        """
        said = {trial_id: _annotations(entries) for trial_id, entries in self._journal.read(damaged).items()}
        return {trial_id: each for trial_id, each in said.items() if each}

    def annotations_of(self, trial_id: str, damaged: Callable[[str], None] = ignore_damage) -> list[Annotation]:
        """What reviewers said of one trial so far, in order. Raises JobError when there is no such trial."""
        self.trial_folder(trial_id)
        return _annotations(self._journal.read(damaged).get(trial_id, ()))

    def add_assessment(self, assessment: Assessment) -> None:
        """Add what judges answered about a trial; it is on the disk on return, and changes no reward.

        Needs no lock. Raises JobError with similar ids when there is no such trial.
        """
        self.trial_folder(assessment.trial_id)
        self._assessments.append(assessment)

    def assessments(self, damaged: Callable[[str], None] = ignore_damage) -> dict[str, list[Assessment]]:
        """What judges answered, by the ids of trials, in order. `damaged` is told of lines that cannot be read."""
        return {trial_id: [*found] for trial_id, found in self._assessments.read(damaged).items()}

    def add_behaviour(self, classified: Assessment) -> None:
        """Add how the turns of a trial were classified, as `add_assessment` does."""
        self.trial_folder(classified.trial_id)
        self._behaviour.append(classified)

    def behaviour(self, damaged: Callable[[str], None] = ignore_damage) -> dict[str, list[Assessment]]:
        """How turns were classified, by the ids of trials, in order."""
        return {trial_id: [*found] for trial_id, found in self._behaviour.read(damaged).items()}

    def behaviour_of(self, trial_id: str) -> list[Assessment]:
        """How the turns of one trial were classified, in order."""
        return self._behaviour.read_one(trial_id)

    def revisions(self, trial_id: str) -> list[StoredRevision]:
        """Every record of a trial that counts, the first one first. Raises as `record` does."""
        self.trial_folder(trial_id)
        with storing(self.path / "trials" / trial_id):
            numbers = (0, *self._sources.revisions.of(trial_id))
            found = [self._sources.examine(trial_id, number) for number in numbers]
        sound = [record for record in found if isinstance(record, TrialRecord)]
        if not sound and isinstance(found[0], Uncounted):
            raise StoreError(self.explain(found[0]))
        return [StoredRevision(record, self._sources.place(trial_id, record.revision)) for record in sound]

    def next_revision(self, trial_id: str) -> int:
        """The number of a revision that is made now, by whoever has the lock."""
        with storing(self.path / REVISIONS):
            last = max(self._sources.revisions.of(trial_id), default=0)
        if last >= LAST_REVISION:
            place = self.path / REVISIONS / revision_name(trial_id, last)
            raise StoreError(f"{place}: no revision can come after this one; nobody made so many, so move it away")
        return last + 1

    def explain(self, found: Uncounted) -> str:
        """What is the matter with a trial that does not count, and what to do about it."""
        if found.newer:
            name, last = revision_name(found.trial_id, found.revision), "; install a newer one"
            return f"{'revision ' if found.revision else ''}{name} does not count: {found.reason}{last}"
        if found.revision:
            name = revision_name(found.trial_id, found.revision)
            judge = "`seatrial regrade` judges the trial again"
            return f"revision {name} does not count: {found.reason}; the one before it does; {judge}"
        return f"{found.trial_id} does not count: {found.reason}; {_advice(self.path, self.file, found)}"

    def trial_folder(self, trial_id: str) -> Path:
        """Where everything about a finished trial is. Raises JobError with similar ids when there is no such trial."""
        folder = self.path / "trials" / trial_id
        if trial_id in ("", ".", "..") or "/" in trial_id or "\0" in trial_id or not _is_folder(folder):
            raise JobError(f"{self.path}: there is no finished trial {trial_id!r}; {self._similar(trial_id)}")
        return folder

    def census(self) -> Census:
        """All trials that count, and what is there that does not. One that is damaged is no concern of the others."""
        for name in ("trials", REVISIONS):
            self._refuse_link(self.path / name)
        with storing(self.path / "trials"):
            return self._sources.count()

    def entries(self) -> list[TrialEntry]:
        """All trials that count, in the order of their ids."""
        return self.census().entries

    def added_since(self, start: int, limit: int = 2**22) -> tuple[list[TrialEntry], int]:
        """The trials that were stored since the index was `start` bytes long, and how long it is now.

        Costs as much as there is new, whatever a job's size; more than `limit` bytes are left for the next time.
        """
        return self._sources.added_since(start, limit)

    def set_uncounted_aside(self, trial_ids: Collection[str]) -> None:
        """Move what is in the place of these trials' records to `damaged/`, so that they can be run again.

        To be called with the lock held. Nothing is removed.
        """
        self._refuse_link(self.path / DAMAGED)
        if not trial_ids:
            return
        for trial_id in trial_ids:
            self._sources.forget(trial_id)
        move_to_damaged(self.path, self._sources, trial_ids)
        if self._counted is not None:
            self._counted.difference_update(trial_ids)

    def set_aside(self, trial_id: str) -> None:
        """Move a trial that the machinery failed, or whose agent never really ran, to the tries, to be run again.

        Its later revisions go with it, inside its folder. Raises JobError for any other trial: a result is never run
        again until it suits.
        """
        record = self.revisions(trial_id)[-1].record
        refuse_result(record)
        self._sources.forget(trial_id)
        move_trial_to_tries(self.path, self._sources, record)
        if self._counted is not None:
            self._counted.discard(trial_id)

    def _similar(self, wanted: str) -> str:
        finished = sorted(self._names())
        if not finished:
            return "the job has no finished trial yet"
        near = [name for name in finished if wanted and wanted in name][:3] or get_close_matches(wanted, finished)
        return f"similar: {', '.join(near)}" if near else f"for example there is {finished[0]}"

    def _names(self) -> list[str]:
        with storing(self.path / "trials"):
            return [name for name in os.listdir(self.path / "trials") if name[0] != "."]  # noqa: PTH208 - names only

    def _note(self, records: Sequence[TrialRecord]) -> None:
        if any(record.revision for record in records):
            self._sources.revisions.forget()
        if self._counted is not None:
            self._counted.update(record.trial_id for record in records)
        self._sources.note(records)

    @property
    def _sources(self) -> Records:
        if self._records is None:
            self._records = Records(
                self.path, ExpectedTrials(self.file), Index(self.path, self.file, is_own=self.is_own)
            )
        return self._records


def _advice(job: Path, file: JobFile, found: Uncounted) -> str:
    if not found.planned:
        return f"it is no trial of this job, so move it out of {job / 'trials'}"
    if file.driver == "environment":
        return "evaluate again with `resume=True`, which keeps what is there and runs the trial again"
    if file.driver == "import":
        return "import the job again, into another folder"
    resume = shlex.join(("seatrial", "resume", str(job)))
    return f"`{resume}` keeps what is there in {DAMAGED}/ and runs the trial again"


def _annotations(entries: Iterable[ReviewEntry]) -> list[Annotation]:
    return [entry.annotation for entry in not_taken_back(entries) if entry.annotation]


def _is_folder(path: Path) -> bool:
    return os.path.isdir(path)  # noqa: PTH112 - a Path raises for a name that no folder can have


# job.json, and which folders may become a job.

_MAX_JOB_BYTES = 2**30
_MAX_TRIALS = 1_000_000
_OURS = frozenset({"trials", "tries", ".drafts", ".lock", f".{JOB}.new", SEAL})


def new_job_id() -> str:
    return secrets.token_hex(16)


def read_job_file(folder: Path) -> tuple[JobFile, bytes]:
    """What job.json says, and its bytes. Raises JobError that says why it cannot be read."""
    path = folder / JOB
    with storing(path):
        if not path.is_file():
            what = "no such folder" if not folder.exists() else f"no {JOB} in it"
            raise JobError(f"{folder}: {what}, so it is not a job; name the folder that `seatrial run` made")
        content = read_file(path, _MAX_JOB_BYTES)
    try:
        file = JobFile.model_validate_json(content)
    except ValidationError as error:
        raise JobError(_what_is_wrong(path, content, error)) from None
    check_size(folder, file)
    return file, content


def check_size(folder: Path, file: JobFile) -> None:
    """Raise JobError for a job of more trials than can be listed: a stranger's may ask for as many as it likes."""
    trials = len(file.tasks) * len(file.spec.agents) * file.spec.attempts
    if trials > _MAX_TRIALS:
        raise JobError(
            f"{folder}: the job asks for {trials:,} trials, expected {_MAX_TRIALS:,} at most; make several jobs of it"
        )


def _what_is_wrong(path: Path, content: bytes, error: ValidationError) -> str:
    try:
        json.loads(content)
    except (ValueError, RecursionError) as broken:
        return f"{path}: is not JSON ({broken}); restore it from a copy, or run the job anew in another folder"
    if (newer := newer_than_us(content, error, JOB_SCHEMA_VERSION)) is not None:
        return f"{path}: {newer}; install a newer Seatrial"
    return f"{path}: {first_fault(error, 'the file')}; restore it from a copy, or run the job anew in another folder"


def ensure_free(folder: Path) -> None:
    """Raise JobError unless a new job can be made in this folder."""
    with storing(folder):
        if folder.exists() and not folder.is_dir():
            raise JobError(f"{folder}: is a file, expected a folder for the job; choose another one")
        if (folder / JOB).exists():
            raise JobError(f"{folder}: holds a job already; {_how_to_go_on(folder)}, or choose another folder")
        # Our own empty folders are what a crash leaves of a job that was just being made.
        foreign = sorted(_foreign(folder)) if folder.exists() else []
    if foreign:
        raise JobError(
            f"{folder}: is not empty ({foreign[0]} is in it) and holds no job; choose an empty or new folder"
        )


def make_folders(folder: Path, names: Iterable[str]) -> None:
    """Make the folder of a new job and those in it. Raises JobError that says where and why that is not possible."""
    try:
        for name in names:
            (folder / name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        there = next(parent for parent in (folder, *folder.absolute().parents) if parent.is_dir())
        # Such as /proc, which says that what is to be made there does not exist.
        odd = error.errno == errno.ENOENT
        why = "it takes no new folders" if odd else error.strerror or str(error)
        raise JobError(f"{folder}: the job's folder cannot be made in {there}: {why}; name another with -o") from error


def _how_to_go_on(folder: Path) -> str:
    try:
        driver = read_job_file(folder)[0].driver
    except JobError as error:
        return f"it cannot be read ({error}); move it away"
    if driver == "environment":
        return "these are rollouts of an environment: go on with them by `resume=True` beside `save_to`"
    if driver == "import":
        return "results were imported into it: move it away"
    return f"go on with it by `{shlex.join(('seatrial', 'resume', str(folder)))}`"


def _foreign(folder: Path) -> set[str]:
    found = {path.name for path in folder.iterdir()} - _OURS
    return found | {f"{name}/" for name in ("trials", "tries") if any(folder.glob(f"{name}/*"))}


# regrade.json: the regrade that a job is in the middle of. It is gone when that has come to its end.

REGRADE = "regrade.json"
_MAX_BYTES = 2**16


class OpenRegrade(StrictModel):
    """A regrade that was begun. `key` is a digest of all that was asked for, by which it is known again."""

    id: Annotated[str, Field(min_length=1)]
    key: Sha256
    started_at: Timestamp


def read_open_regrade(job: Path) -> OpenRegrade | None:
    """The regrade that a job is in the middle of; None where there is none, or nothing that can be read as one."""
    try:
        return OpenRegrade.model_validate_json(read_file(job / REGRADE, _MAX_BYTES))
    except (OSError, ValidationError):
        return None


def new_regrade(key: str) -> OpenRegrade:
    return OpenRegrade(id=secrets.token_hex(8), key=key, started_at=dt.datetime.now(dt.UTC))


def begin_regrade(job: Path, regrade: OpenRegrade) -> None:
    """Note that a regrade is under way, by whoever has the lock. Raises StoreError."""
    with storing(job / REGRADE):
        replace_file(job / REGRADE, to_json(regrade))


def end_regrade(job: Path) -> None:
    with storing(job / REGRADE):
        (job / REGRADE).unlink(missing_ok=True)


# Which files make up a job, so that nothing else is written over them.

_OF_OLDER_VERSIONS = "index.checkpoint"
_FILES = (JOB, SEAL, INDEX, _OF_OLDER_VERSIONS, ANNOTATIONS, ASSESSMENTS, BEHAVIOUR, REGRADE, ".lock")
_PARTS = frozenset({*_FILES, REVISIONS, "trials", "tries", ".drafts", "contents", DAMAGED})


def job_with_part(path: Path) -> Path | None:
    """The folder of the job that a file is a part of, or would be; None for any other, also if it is beside them."""
    place = path.parent.resolve() / path.name
    below = place.name
    for folder in place.parents:
        if below in _PARTS and (folder / JOB).is_file():
            return folder
        below = folder.name
    return None
