"""A trial that is looked at: its records, what reviewers said, and where its files are, as far as they can be read."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from seatrial.analysis.loaded import LoadedJob
from seatrial.analysis.reviewed import reviewed_record
from seatrial.errors import JobError, StoreError
from seatrial.model.job import LockedTask
from seatrial.model.record import TrialRecord
from seatrial.model.review import ReviewEntry
from seatrial.store.index import TrialEntry
from seatrial.store.job_store import StoredRevision
from seatrial.view.trial.files import tree_of


@dataclass(frozen=True, slots=True)
class OpenedTrial:
    """One trial of a job. `key` is the job's. `trouble` says why none of its records counts, empty if one does."""

    key: str
    job: LoadedJob
    trial_id: str
    folder: Path
    revisions: tuple[StoredRevision, ...]
    reviews: tuple[ReviewEntry, ...]
    trouble: str = ""

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
        revisions[-1] = revisions[-1]._replace(record=reviewed_record(revisions[-1].record, reviews, job.agreement))
    return OpenedTrial(key, job, trial_id, folder, tuple(revisions), reviews)


def _can_be_folder(name: str) -> bool:
    """Whether a step of a stranger's record can have files: its name must not lead elsewhere."""
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name


def round_folder(folder: Path, step: str | None) -> Path:
    """Where the files of a round are, below a trial's folder."""
    return folder / "steps" / step if step else folder
