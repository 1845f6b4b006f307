"""A trial that is looked at: its records, what reviewers said, and where its files are, as far as they can be read."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from seatrial.analysis.assessed import assessed_record
from seatrial.analysis.loaded import LoadedJob, reviewed_record
from seatrial.errors import JobError, StoreError
from seatrial.model.job import LockedTask
from seatrial.model.record import TrialRecord
from seatrial.model.review import ReviewEntry
from seatrial.store.index import TrialEntry
from seatrial.store.job_store import StoredRevision

# The files of a trial's folder as a tree. Links are shown for what they are and never followed.

MOST_ENTRIES = 2_000
_MOST_NAMES = 20_000
"""So many names of a folder are read and put in order, whichever a disk has first: more take seconds."""


@dataclass(slots=True)
class FileNode:
    """A file: `path` is relative to the folder it was found in. `kind` is empty for what can be opened."""

    name: str
    path: str
    size: int
    kind: str = ""


@dataclass(slots=True)
class FolderNode:
    """A folder with what is in it; `size` is that of all files below it."""

    name: str
    path: str
    folders: list["FolderNode"] = field(default_factory=list)
    files: list[FileNode] = field(default_factory=list)
    trouble: str = ""

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files) + sum(folder.size for folder in self.folders)

    @property
    def count(self) -> int:
        return len(self.files) + sum(folder.count for folder in self.folders)


def tree_of(folder: Path, below: str = "", deepest: int = 24, begin: str = "") -> FolderNode:
    """What is `below` a folder, up to some thousands of entries; a folder that was not read to its end says so.

    Paths in it are those from the folder on; or they have this `begin` instead of `below`.
    """
    place = folder
    for name in Path(below).parts:
        place /= name
        if name == ".." or os.path.islink(place):  # noqa: PTH114 - a Path raises where this user may not look
            return FolderNode("", below, trouble="it lies behind a link, and links are not followed")
    return _Walk(MOST_ENTRIES, deepest).read(str(place), "", begin or below, 0)


@dataclass(slots=True)
class _Walk:
    """Reads folders until enough has been seen."""

    left: int
    deepest: int

    def read(self, place: str, name: str, path: str, depth: int) -> FolderNode:
        node = FolderNode(name, path)
        try:
            with os.scandir(place) as found:
                entries = sorted(islice(found, _MOST_NAMES), key=lambda entry: entry.name)
        except OSError as error:
            node.trouble = f"cannot be read: {error.strerror}"
            return node
        for entry in entries:
            if self.left <= 0 or depth > self.deepest:
                node.trouble = "there is more in it than is shown here"
                break
            self.left -= 1
            self._add(node, entry, f"{path}/{entry.name}" if path else entry.name, depth)
        return node

    def _add(self, node: FolderNode, entry: os.DirEntry[str], path: str, depth: int) -> None:
        if not _is_text(entry.name):
            node.files.append(FileNode(entry.name, path, 0, "its name is no text"))
        elif entry.is_dir(follow_symlinks=False):
            node.folders.append(self.read(entry.path, entry.name, path, depth + 1))
        elif entry.is_symlink():
            node.files.append(FileNode(entry.name, path, 0, "link"))
        elif entry.is_file(follow_symlinks=False):
            node.files.append(FileNode(entry.name, path, entry.stat(follow_symlinks=False).st_size))
        else:
            node.files.append(FileNode(entry.name, path, 0, "no plain file"))


def _is_text(name: str) -> bool:
    return not any("\udc80" <= letter <= "\udcff" for letter in name)


@dataclass(frozen=True, slots=True)
class OpenedTrial:
    """One trial of a job."""

    key: str
    """The job's."""
    job: LoadedJob
    trial_id: str
    folder: Path
    revisions: tuple[StoredRevision, ...]
    reviews: tuple[ReviewEntry, ...]
    trouble: str = ""
    """Why none of its records counts; empty if one does."""

    @property
    def record(self) -> TrialRecord | None:
        """The newest record that counts."""
        return self.revisions[-1].record if self.revisions else None

    @property
    def latest(self) -> Path:
        """The folder with what the verifier left when the newest record was made."""
        return self.revisions[-1].folder if self.revisions else self.folder

    @property
    def entry(self) -> TrialEntry | None:
        """The trial as the job counts it."""
        return next((each for each in self.job.trials if each.trial_id == self.trial_id), None)

    @property
    def task(self) -> LockedTask | None:
        """The task as the job has locked it."""
        wanted = self.record.task.id if self.record else None
        return next((task for task in self.job.file.tasks if task.id == wanted), None)

    @property
    def rounds(self) -> list[str | None]:
        """The names of its steps; a trial of a task without steps has one round that has no name.

        A step in which the machinery failed may be missing from the record; its files are there all the same.
        """
        told = [step.name for step in self.record.steps if _can_be_folder(step.name)] if self.record else []
        kept = [node.name for node in tree_of(self.folder, "steps", deepest=0).folders]
        return [*dict.fromkeys([*told, *kept])] or [None]

    def damaged_revisions(self) -> Iterator[str]:
        """What is the matter with later revisions that do not count."""
        for found in self.job.uncounted:
            if found.trial_id == self.trial_id and found.revision:
                yield self.job.store.explain(found)


def open_trial(key: str, job: LoadedJob, trial_id: str) -> OpenedTrial:
    """A trial of a job. Raises JobError with similar ids when there is none.

    One whose record is damaged is opened too, without a record: its files may still tell what happened.
    """
    folder = job.store.trial_folder(trial_id)
    if folder.is_symlink():
        raise JobError(f"{folder}: is a link, expected the folder of a trial; links are not followed")
    reviews = tuple(job.reviews.get(trial_id, ()))
    try:
        revisions = job.store.revisions(trial_id)
    except StoreError as error:
        return OpenedTrial(key, job, trial_id, folder, (), reviews, str(error))
    if reviews:
        revisions[-1] = revisions[-1]._replace(record=reviewed_record(revisions[-1].record, reviews))
    if assessments := job.assessments.get(trial_id):
        revisions[-1] = revisions[-1]._replace(record=assessed_record(revisions[-1].record, assessments))
    return OpenedTrial(key, job, trial_id, folder, tuple(revisions), reviews)


def _can_be_folder(name: str) -> bool:
    """Whether a step of a stranger's record can have files: its name must not lead elsewhere."""
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name


def round_folder(folder: Path, step: str | None) -> Path:
    """Where the files of a round are, below a trial's folder."""
    return folder / "steps" / step if step else folder
