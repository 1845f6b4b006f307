"""A run, watched: what is finished and what is under way, for any number of pages at the price of one look a second.

Nothing runs by itself. Whoever watches asks every second; the first who does looks, and the others get what it saw. So
the looking ends with the last page, and a page that is slow to take what it is told misses states and piles up none.
"""

import asyncio
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from seatrial.analysis.loaded import LoadedJob
from seatrial.model.record import Outcome
from seatrial.store.index import TrialEntry, stamp_of
from seatrial.store.index_file import INDEX
from seatrial.store.job_mark import JOB
from seatrial.store.lock import holder_of
from seatrial.view.cards import RunState
from seatrial.view.library import Library

LOOK_SEC = 1.0
_RECENT = 20
_MOST_UNDERWAY = 100
_DRAFT_ENDING = 9  # a dot and eight digits


@dataclass(frozen=True, slots=True)
class LiveState:
    """A job at one moment. `recent` are the trials that were finished last, the last one first."""

    state: RunState
    planned: int
    finished: int
    outcomes: dict[Outcome, int]
    underway: tuple[str, ...] = ()
    recent: tuple[TrialEntry, ...] = ()


class JobWatch:
    """What is known of one job that somebody watches."""

    def __init__(self, job: LoadedJob, read: int) -> None:
        """A watch of a job that was read when its index was `read` bytes long."""
        self._store, self._read = job.store, read
        self._file = stamp_of(f"{job.path}/{JOB}")
        self._planned = sum(tally.planned for tally in job.summary.agents.values())
        self._outcomes: dict[str, Outcome] = {trial.trial_id: trial.outcome for trial in job.trials}
        self._counts: Counter[Outcome] = Counter(self._outcomes.values())
        self._recent: deque[TrialEntry] = deque(maxlen=_RECENT)

    @property
    def is_outdated(self) -> bool:
        """Whether the job has become another one, such as one with more attempts."""
        return self._file != stamp_of(f"{self._store.path}/{JOB}")

    def look(self) -> LiveState:
        """The job as it is now. Reads what was added to its index, and the names of its drafts while it runs."""
        running = holder_of(self._store.path) is not None
        self._take_added()
        finished = len(self._outcomes)
        left: RunState = "finished" if finished >= self._planned else "interrupted"
        return LiveState(
            state="running" if running else left,
            planned=self._planned,
            finished=finished,
            outcomes=dict(self._counts),
            underway=self._underway() if running else (),
            recent=tuple(reversed(self._recent)),
        )

    def _take_added(self) -> None:
        size = _size(f"{self._store.path}/{INDEX}")
        if size < self._read:
            self._read = 0
        while self._read < size:
            added, self._read, before = *self._store.added_since(self._read), self._read
            for trial in added:
                self._take(trial)
            if self._read == before:
                break  # a line that is not whole yet

    def _take(self, trial: TrialEntry) -> None:
        known = self._outcomes.get(trial.trial_id)
        if known == trial.outcome:
            return
        if known is not None:
            self._counts[known] -= 1
        self._outcomes[trial.trial_id] = trial.outcome
        self._counts[trial.outcome] += 1
        self._recent.append(trial)

    def _underway(self) -> tuple[str, ...]:
        try:
            names = os.listdir(self._store.path / ".drafts")  # noqa: PTH208 - names only
        except OSError:
            return ()
        return tuple(sorted(name[:-_DRAFT_ENDING] for name in names)[:_MOST_UNDERWAY])


@dataclass(eq=False, slots=True)
class _Watched:
    """A watch that several pages share: what was seen last, when, and who is just looking."""

    watch: JobWatch | None = None
    seen: LiveState | None = None
    at: float = -LOOK_SEC
    pages: int = 0
    looking: asyncio.Lock = field(default_factory=asyncio.Lock)


class Live:
    """The jobs that pages watch. Each is looked at once a second at most, and forgotten with its last page."""

    def __init__(self, library: Library, clock: Callable[[], float] = time.monotonic) -> None:
        self._library, self._clock = library, clock
        self._watched: dict[str, _Watched] = {}

    @contextmanager
    def watching(self, key: str) -> Iterator[None]:
        """Be one of those who watch a job."""
        watched = self._watched.setdefault(key, _Watched())
        watched.pages += 1
        try:
            yield
        finally:
            watched.pages -= 1
            if not watched.pages:
                self._watched.pop(key, None)

    async def state(self, key: str) -> LiveState:
        """A job that is watched, as it was less than a second ago. Raises JobError when it cannot be read."""
        watched = self._watched[key]
        async with watched.looking:
            if watched.seen is None or self._clock() - watched.at >= LOOK_SEC:
                watched.at = self._clock()
                watched.seen = await asyncio.to_thread(self._look, key, watched)
        return watched.seen

    @property
    def watched(self) -> dict[str, int]:
        """How many pages watch each job."""
        return {key: each.pages for key, each in self._watched.items()}

    def _look(self, key: str, watched: _Watched) -> LiveState:
        if watched.watch is None or watched.watch.is_outdated:
            watched.watch = JobWatch(*self._library.job_and_index(key))
        return watched.watch.look()


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0
