"""A run, watched by any number of pages at the price of one look a second, and told to them by server-sent events.

Nothing runs by itself. Whoever watches asks every second; the first who does looks, and the others get what it saw. So
the looking ends with the last page, and a page that is slow to take what it is told misses states and piles up none.
"""

import asyncio
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

from seatrial.analysis.loaded import LoadedJob
from seatrial.errors import SeatrialError
from seatrial.model.outcome import Outcome
from seatrial.report.tables import trial_row
from seatrial.report.text import OUTCOME_WORDS, harmless
from seatrial.store.files import JOB, holder_of
from seatrial.store.index import INDEX, TrialEntry, stamp_of
from seatrial.view.app import CLOSING, VIEW
from seatrial.view.library import Library, RunState
from seatrial.view.links import Links
from seatrial.view.overview import outcome_words

LOOK_SEC = 1.0
_RECENT = 20
_MOST_UNDERWAY = 100
_DRAFT_ENDING = 9  # a dot and eight digits


@dataclass(frozen=True, slots=True)
class LiveState:
    """A job at one moment."""

    state: RunState
    planned: int
    finished: int
    outcomes: dict[Outcome, int]
    underway: tuple[str, ...] = ()
    recent: tuple[TrialEntry, ...] = ()
    """Those that finished last, the last one first."""


class JobWatch:
    """What is known of one job that somebody watches."""

    def __init__(self, job: LoadedJob, read: int) -> None:
        """A watch of a job that was read when its index was `read` bytes long."""
        self._store, self._read = job.store, read
        self._file = stamp_of(f"{job.path}/{JOB}")
        self._planned = sum(trials.planned for trials in job.by_agent.values())
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


# Server-sent events: pages keep up with jobs without being loaded again.

_MOST_JOBS = 50
_SIGN_OF_LIFE = 15
"""After so many looks without news something is sent all the same, to learn whether anybody still listens."""


def state_json(links: Links, key: str, state: LiveState) -> dict[str, Any]:
    """What a page is told of a job, in the words that it shows."""
    return {
        "state": state.state,
        "planned": state.planned,
        "finished": state.finished,
        "outcomes": outcome_words(state.outcomes, state.planned),
        "underway": [harmless(name) for name in state.underway],
        "recent": [_trial_json(links, key, trial) for trial in state.recent],
    }


def _trial_json(links: Links, key: str, trial: TrialEntry) -> dict[str, Any]:
    name, _, reward, time = trial_row(trial)
    cells = [harmless(trial.agent), OUTCOME_WORDS[trial.outcome], reward, time]
    return {"trial": name, "link": links.trial(key, trial.trial_id), "outcome": trial.outcome, "cells": cells}


async def _tell(request: web.Request, keys: Sequence[str]) -> web.StreamResponse:
    """Tell a page of jobs until it goes away or the viewer ends: everything at first, then each job that changed."""
    view, live, closing = request.app[VIEW], request.app[VIEW].live, request.app[CLOSING]
    await asyncio.to_thread(lambda: [view.library.folder(key) for key in keys])  # raises for one that is not there
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    if request.method == "HEAD":
        return response
    told: dict[str, LiveState] = {}
    quiet = 0
    with ExitStack() as stack, suppress(ConnectionError):
        for key in keys:
            stack.enter_context(live.watching(key))
        while not closing.is_set() and request.transport is not None:
            news = {key: state for key in keys if (state := await _state(request, key)) and state != told.get(key)}
            told.update(news)
            quiet = 0 if news else quiet + 1
            if news:
                jobs = {key: state_json(view.links, key, state) for key, state in news.items()}
                # Waits until the page has taken enough of what it was told before.
                await response.write(b"data: " + orjson.dumps({"jobs": jobs}) + b"\n\n")
            elif quiet % _SIGN_OF_LIFE == 0:
                await response.write(b":\n\n")
            with suppress(TimeoutError):
                await asyncio.wait_for(closing.wait(), LOOK_SEC)
    return response


async def _state(request: web.Request, key: str) -> LiveState | None:
    """A job as it is; nothing while it cannot be read, such as one that is just being moved."""
    try:
        return await request.app[VIEW].live.state(key)
    except SeatrialError:
        return None


async def _of_one(request: web.Request) -> web.StreamResponse:
    return await _tell(request, [request.match_info["job"]])


async def _of_several(request: web.Request) -> web.StreamResponse:
    keys = [*dict.fromkeys(request.query.getall("job", []))]
    if not 0 < len(keys) <= _MOST_JOBS:
        raise web.HTTPBadRequest(text=f"{len(keys)} jobs are named, expected 1 to {_MOST_JOBS}: ?job=KEY&job=KEY")
    return await _tell(request, keys)


def routes() -> list[web.RouteDef]:
    return [web.get("/api/jobs/{job}/events", _of_one), web.get("/api/events", _of_several)]
