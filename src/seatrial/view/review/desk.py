"""Jobs on the reviewers' desk: trials under the keys by which reviewers know them, and what the journal has of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from seatrial.analysis.loaded import LoadedJob
from seatrial.analysis.reviewed import Reviews
from seatrial.errors import JobError
from seatrial.model.review import ReviewEntry
from seatrial.review.blind import desk_key, item_key
from seatrial.store.index import TrialEntry
from seatrial.store.job_file import read_job_file
from seatrial.view.library import Library


class NotOnDeskError(JobError):
    """Somebody asks for what is not there; the message names neither job nor trial."""


@dataclass(frozen=True, slots=True)
class Desk:
    """One job under review, as it was when it was looked up. `trials` are by the keys of items."""

    job_key: str
    job: LoadedJob
    trials: Mapping[str, TrialEntry]
    reviews: Reviews

    def trial(self, key: str) -> TrialEntry:
        """The trial of an item. Raises NotOnDeskError when there is none."""
        if key not in self.trials:
            raise NotOnDeskError("there is no such item in this review; open the review again")
        return self.trials[key]

    def entries(self, key: str) -> list[ReviewEntry]:
        """What the journal has about an item."""
        return [*self.reviews.get(self.trial(key).trial_id, ())]


@dataclass(eq=False, slots=True)
class Desks:
    """All jobs under review. Several threads may ask at once."""

    _keys: dict[tuple[str, Path], str] = field(default_factory=dict)
    _items: dict[str, tuple[tuple[TrialEntry, ...], Mapping[str, TrialEntry]]] = field(default_factory=dict)
    _item_keys: dict[tuple[str, str], str] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def key_of(self, library: Library, job_key: str) -> str:
        """The key of a job's desk. Raises JobError when there is no such job."""
        return self._key(job_key, library.folder(job_key))

    def open(self, library: Library, key: str) -> Desk:
        """The desk of a key, with everything that is in the journal now. Raises NotOnDeskError when there is none."""
        # A job that cannot be read is no reason to keep people from the others.
        for job_key, folder in library.find().items():
            if self._key(job_key, folder) == key:
                return self._desk(key, job_key, library.job(job_key))
        raise NotOnDeskError("there is no such review here; open it again from the list of jobs")

    def _desk(self, key: str, job_key: str, job: LoadedJob) -> Desk:
        with self._lock:
            known = self._items.get(key)
            if known is None or known[0] is not job.trials:
                trials = {self._item_key(key, job, trial.trial_id): trial for trial in job.trials}
                known = self._items[key] = (job.trials, trials)
            return Desk(job_key, job, known[1], job.store.reviews())

    def _item_key(self, key: str, job: LoadedJob, trial_id: str) -> str:
        """The key of an item, worked out once: every verdict makes new trials, which have its tags."""
        if (key, trial_id) not in self._item_keys:
            self._item_keys[key, trial_id] = item_key(job.file, trial_id)
        return self._item_keys[key, trial_id]

    def _key(self, job_key: str, folder: Path) -> str:
        if (job_key, folder) not in self._keys:
            try:
                self._keys[job_key, folder] = desk_key(read_job_file(folder)[0], job_key)
            except JobError:
                return ""
        return self._keys[job_key, folder]
