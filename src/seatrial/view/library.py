"""The jobs that are shown, each read once for all who ask and again only when it has changed.

A run changes its job all the time. While one is under way, what was read before is good enough for twenty times as
long as the reading took: then looking costs the machine at most a twentieth of one core, whatever a job's size.
"""

import datetime as dt
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from seatrial.analysis.figures import OUTCOMES, Figures
from seatrial.analysis.loaded import LoadedJob, load_job, read_reviews_again
from seatrial.errors import JobError, SeatrialError
from seatrial.model.outcome import Outcome
from seatrial.model.review import ReviewEntry, not_taken_back
from seatrial.store.drafts import REVISIONS
from seatrial.store.files import JOB, holder_of
from seatrial.store.index import INDEX
from seatrial.store.journal import ANNOTATIONS, ASSESSMENTS, Journal, annotation_journal
from seatrial.store.records import collector_paused
from seatrial.view.job_folders import job_folders

# Cards: the little that a list of jobs shows of each, small enough to keep of all of them.

RunState = Literal["running", "finished", "interrupted"]
"""Of an `interrupted` job nobody carries out what is left."""


@dataclass(frozen=True, slots=True)
class JobCard:
    """A job and its agents. `uncounted` are folders in the place of trials that do not count."""

    folder: Path
    name: str
    created_at: dt.datetime
    tasks: int
    attempts: int
    agents: Mapping[str, Figures]
    uncounted: int

    @property
    def planned(self) -> int:
        return sum(each.planned for each in self.agents.values())

    @property
    def finished(self) -> int:
        return sum(each.finished for each in self.agents.values())

    @property
    def counts(self) -> dict[Outcome, int]:
        """How often each outcome occurred."""
        found: Counter[Outcome] = Counter()
        for each in self.agents.values():
            found.update(each.counts)
        return {outcome: found[outcome] for outcome in OUTCOMES if found[outcome]}


def card_of(job: LoadedJob) -> JobCard:
    """What a list says of a job."""
    file = job.file
    sizes = len(file.tasks), file.spec.attempts
    return JobCard(job.path, job.name, file.created_at, *sizes, job.summary.agents, len(job.uncounted))


def run_state(folder: Path, open_trials: int) -> RunState:
    """Whether a job is being carried out, is done, or was left with so many open trials."""
    if holder_of(folder) is not None:
        return "running"
    return "interrupted" if open_trials else "finished"


T = TypeVar("T")
_Status = tuple[int, int, int] | None
"""Which file it is, how long, and when it was changed; None where there is none."""

_MOST_TRIALS = 300_000
_PATIENCE = 20.0
"""For how many times the time that it took to read a job it is good enough, while it changes all the time."""


@dataclass(eq=False)
class _Kept:
    """What is known of a job. One thread at a time works on it; others that want the same wait for that."""

    folder: Path
    lock: threading.Lock = field(default_factory=threading.Lock)
    stamp: tuple[_Status, ...] = ()
    said: tuple[_Status, ...] = ()
    job: LoadedJob | None = None
    card: JobCard | None = None
    made: dict[str, Any] = field(default_factory=dict)
    began: float = 0.0
    took: float = 0.0
    used: float = 0.0

    @property
    def size(self) -> int:
        return len(self.job.trials) if self.job else 0


class Library:
    """Jobs by their keys. Any number of threads may ask."""

    def __init__(
        self, folders: Sequence[Path], most_trials: int = _MOST_TRIALS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.folders = tuple(folders)
        self._most, self._clock = most_trials, clock
        self._kept: dict[Path, _Kept] = {}
        self._guard = threading.Lock()
        self._journals: dict[Path, Journal[ReviewEntry]] = {}
        self._found: dict[str, Path] = {}

    def find(self) -> dict[str, Path]:
        """The folder of every job, by its key."""
        self._found = job_folders(self.folders)
        return self._found

    def folder(self, key: str) -> Path:
        """The folder of a job. Raises JobError when there is none of that key."""
        # To look for all jobs takes long where there are hundreds, and a page asks for the folder of one many times.
        found = self._found.get(key)
        if found is None or not (found / JOB).is_file():
            found = self.find().get(key)
        if found is None:
            raise JobError(f"there is no job {key!r} here; the list of jobs has all there are")
        return found

    def job(self, key: str) -> LoadedJob:
        """The job of a key, as it is now. Raises JobError when there is none, or when it cannot be read."""
        kept = self._of(key)
        with kept.lock:
            job = self._up_to_date(kept)
        self._make_room(kept)
        return job

    def job_and_index(self, key: str) -> tuple[LoadedJob, int]:
        """The job of a key, and how many bytes its index had just before it was read."""
        kept = self._of(key)
        with kept.lock:
            job, index = self._up_to_date(kept), kept.stamp[1]
        self._make_room(kept)
        return job, index[1] if index else 0

    def made(self, key: str, name: str, make: Callable[[LoadedJob], T]) -> T:
        """What is made of a job's trials: once, until they change, or what reviewers say of them."""
        kept = self._of(key)
        with kept.lock:
            job, made = self._up_to_date(kept), kept.made
            if name not in made:
                began = self._clock()
                with collector_paused():
                    made[name] = make(job)
                kept.took += self._clock() - began
            value: T = made[name]
        self._make_room(kept)
        return value

    def card(self, key: str) -> JobCard:
        """What the list of jobs says of one. It is kept when the job itself has to make room for others."""
        kept = self._of(key)
        with kept.lock:
            if kept.card is None or kept.stamp != _stamp(kept.folder):
                kept.card = card_of(self._up_to_date(kept))
            card = kept.card
        self._make_room(kept)
        return card

    def cards(self) -> Iterator[tuple[str, JobCard | SeatrialError]]:
        """All jobs; of one that cannot be read, why."""
        for key in self.find():
            try:
                yield key, self.card(key)
            except SeatrialError as error:
                yield key, error

    def reviewed(self, key: str) -> tuple[int, int]:
        """How many trials of a job have a verdict that stands, and how many reviewers gave them."""
        folder = self.folder(key)
        with self._guard:
            journal = self._journals.setdefault(folder, annotation_journal(folder))
        said = (not_taken_back(entries) for entries in journal.read().values())
        reviewers = [{each.reviewer_id for each in standing} for standing in said if standing]
        return len(reviewers), len(set().union(*reviewers))

    def _of(self, key: str) -> _Kept:
        folder = self.folder(key)
        with self._guard:
            kept = self._kept.setdefault(folder, _Kept(folder))
            kept.used = self._clock()
            return kept

    def _up_to_date(self, kept: _Kept) -> LoadedJob:
        stamp, said = _stamp(kept.folder), _journals(kept.folder)
        job = kept.job  # which others may let go of at any moment, to make room
        if job is None or (kept.stamp != stamp and not self._will_do(kept)):
            kept.began = self._clock()
            with collector_paused():
                job = load_job(kept.folder)
            kept.job, kept.stamp, kept.made, kept.card = job, stamp, {}, None
            kept.took = self._clock() - kept.began
        elif kept.said != said:
            job = read_reviews_again(job)
            kept.job, kept.made = job, {}
        kept.said = said
        return job

    def _will_do(self, kept: _Kept) -> bool:
        return self._clock() - kept.began < _PATIENCE * kept.took and holder_of(kept.folder) is not None

    def _make_room(self, newest: _Kept) -> None:
        """Let go of what was asked for longest ago, until the rest fits."""
        with self._guard:
            every = sorted(self._kept.values(), key=lambda each: each.used)
            size = sum(each.size for each in every)
            for each in every:
                if size <= self._most:
                    break
                if each is not newest:
                    size -= each.size
                    each.job, each.made = None, {}


def _journals(folder: Path) -> tuple[_Status, ...]:
    """What changes when reviewers or judges say more."""
    return tuple(_status(folder / name) for name in (ANNOTATIONS, ASSESSMENTS))


def _stamp(folder: Path) -> tuple[_Status, ...]:
    """What changes when the trials of a job do."""
    return tuple(_status(folder / name) for name in (JOB, INDEX, "trials", REVISIONS))


def _status(path: Path) -> _Status:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
