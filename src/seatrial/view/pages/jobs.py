"""The list of jobs: what runs, what is done, and how good each agent was."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

import markupsafe
from aiohttp import web

from seatrial.analysis.figures import Figures
from seatrial.errors import SeatrialError
from seatrial.report.tables import estimate_cells
from seatrial.report.text import counted
from seatrial.view.app import CLOSING, VIEW, Viewer, html
from seatrial.view.library import JobCard, RunState, run_state
from seatrial.view.overview import outcome_bar, outcome_words
from seatrial.view.queries import STATES, JobQuery, read_job_query
from seatrial.view.templating import render

_PATIENCE_SEC = 1.5
"""So long a list waits for jobs that are being read for the first time, before it is shown without them."""

Known = tuple[str, JobCard | SeatrialError]
"""A job by its key, or why it cannot be read."""

_MOST_AGENTS = 8
_MOST_WATCHED = 20


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job as the list shows it."""

    key: str
    card: JobCard
    state: RunState
    bar: markupsafe.Markup
    outcomes: str
    agents: tuple[tuple[str, str, str, str], ...]
    more_agents: int
    reviews: str


def jobs_page(view: Viewer, cards: Iterable[Known] | None = None, query: JobQuery | None = None) -> str:
    """All jobs that are shown, the newest first, or those whose cards are given; of these, what a query asks for."""
    query = query or JobQuery()
    found = view.library.cards() if cards is None else cards
    known = [(key, _row_or_trouble(view, key, card)) for key, card in found]
    rows = [row for _, row in known if isinstance(row, JobRow)]
    every = len(rows)
    rows = [row for row in rows if query.fits(row.key, row.card, row.state)]
    rows.sort(key=lambda row: (row.state != "running", -row.card.created_at.timestamp(), row.key))
    broken = [(key, str(error)) for key, error in known if isinstance(error, SeatrialError)]
    damaged = [] if query.is_narrowed else broken
    running = [row.key for row in rows if row.state == "running"][:_MOST_WATCHED]
    return render(
        "jobs.html.jinja",
        view.links,
        title="Jobs",
        rows=rows,
        every=every,
        query=query,
        states=STATES,
        damaged=damaged,
        unread=len(view.library.find()) - len(known),
        folders=view.library.folders,
        events=view.links.events(*running) if running else "",
    )


def _row_or_trouble(view: Viewer, key: str, card: JobCard | SeatrialError) -> JobRow | SeatrialError:
    """What is shown of a job; of one that was damaged or went away since its card was made, why."""
    try:
        return _row(view, key, card) if isinstance(card, JobCard) else card
    except SeatrialError as error:
        return error


def _row(view: Viewer, key: str, card: JobCard) -> JobRow:
    agents = [_agent_cells(name, figures) for name, figures in card.agents.items()]
    return JobRow(
        key=key,
        card=card,
        state=run_state(card.folder, card.planned - card.finished),
        bar=outcome_bar(card.counts, card.planned),
        outcomes=outcome_words(card.counts, card.planned),
        agents=tuple(agents[:_MOST_AGENTS]),
        more_agents=max(0, len(agents) - _MOST_AGENTS),
        reviews=review_words(*view.library.reviewed(key)),
    )


def _agent_cells(name: str, figures: Figures) -> tuple[str, str, str, str]:
    return name, *estimate_cells(figures.estimate), f"{figures.scored:,} of {figures.planned:,}"


def review_words(trials: int, reviewers: int) -> str:
    """How much of a job people have looked at."""
    return f"{counted(trials, 'trial')} by {counted(reviewers, 'reviewer')}" if trials else "none yet"


class _Reading:
    """The cards of all jobs, read by one thread for all pages that wait for them.

    A list that comes back every second while large jobs are read would otherwise take all threads that there are.
    """

    def __init__(self) -> None:
        self._known: list[Known] = []
        self._under_way: asyncio.Future[None] | None = None

    async def wait(self, app: web.Application) -> tuple[list[Known], bool]:
        """What is known after a short while, and whether that is everything."""
        if self._under_way is None or self._under_way.done():
            self._known = []
            self._under_way = asyncio.ensure_future(asyncio.to_thread(_read, app, self._known))
        known, under_way = self._known, self._under_way
        await asyncio.wait([under_way], timeout=_PATIENCE_SEC)
        if under_way.done():
            under_way.result()
        return [*known], under_way.done()


def _read(app: web.Application, known: list[Known]) -> None:
    for each in app[VIEW].library.cards():
        known.append(each)
        if app[CLOSING].is_set():
            return


def routes() -> list[web.RouteDef]:
    reading = _Reading()

    async def jobs(request: web.Request) -> web.Response:
        known, is_all = await reading.wait(request.app)
        query = read_job_query(request.query)
        response = html(await asyncio.to_thread(jobs_page, request.app[VIEW], known, query))
        if not is_all:
            response.headers["Refresh"] = "1"
        return response

    return [web.get("/", jobs)]
