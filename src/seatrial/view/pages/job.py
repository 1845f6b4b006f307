"""The page of a job: how good its agents are, at which tasks, what goes wrong, and the list of its trials."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import orjson
from aiohttp import web

from seatrial.analysis.arms import COLUMNS, arms_of, trial_rows
from seatrial.analysis.loaded import LoadedJob, Reviews
from seatrial.model.review import ReviewEntry
from seatrial.report.html.parts import notes_of
from seatrial.report.tables import trial_row
from seatrial.report.text import OUTCOME_WORDS, counted, format_cost
from seatrial.review.verdicts import review_of, unsettled
from seatrial.store.index import TrialEntry
from seatrial.view.app import VIEW, Viewer, html
from seatrial.view.library import run_state
from seatrial.view.overview import Overview, make_overview, outcome_bar, outcome_words
from seatrial.view.pages.jobs import review_words
from seatrial.view.queries import SORTS, TrialQuery, TrialSelection, read_query, select_trials
from seatrial.view.templating import render

_PATIENCE_SEC = 0.4
"""So long a page may take before it says what it waits for."""

_MOST_NOTES, _LONGEST_NOTE, _MOST_UNCOUNTED = 6, 120, 20


@dataclass(frozen=True, slots=True)
class TrialLine:
    """A trial as the list shows it."""

    id: str
    agent: str
    outcome: str
    kind: str
    reward: str
    time: str
    cost: str
    started: str
    review: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SortHead:
    """A column by which the list can be sorted: where that leads, and how it is sorted now."""

    name: str
    target: str
    order: str


def job_page(view: Viewer, key: str, query: TrialQuery | None = None) -> str:
    """The page of a job, with the trials that a query asks for. Raises JobError."""
    library, links, overview = view.library, view.links, _overview(view, key)
    job, card = library.job(key), library.card(key)
    selection = select_trials(job, query or TrialQuery(), job.reviews)
    return render(
        "job.html.jinja",
        links,
        title=card.name,
        key=key,
        card=card,
        overview=overview,
        state=run_state(card.folder, card.planned - card.finished),
        bar=outcome_bar(card.counts, card.planned),
        outcomes=outcome_words(card.counts, card.planned),
        outcome_words=OUTCOME_WORDS,
        reviews=review_words(*library.reviewed(key)),
        to_settle=len(unsettled(job.reviews)),
        events=links.events(key),
        selection=selection,
        lines=[*_lines(selection.trials, job.reviews)],
        heads=[*_heads(view, key, selection.query)],
        pages=_pages(view, key, selection),
        uncounted=[job.store.explain(each) for each in job.uncounted[:_MOST_UNCOUNTED]],
    )


def _overview(view: Viewer, key: str) -> Overview:
    return view.library.made(key, "overview", partial(make_overview, view.links, key))


def _lines(trials: Sequence[TrialEntry], reviews: Reviews) -> Iterator[TrialLine]:
    for trial in trials:
        _, _, reward, time = trial_row(trial)
        notes = [note if len(note) <= _LONGEST_NOTE else f"{note[:_LONGEST_NOTE]}…" for note in notes_of(trial)]
        yield TrialLine(
            id=trial.trial_id,
            agent=trial.agent,
            outcome=OUTCOME_WORDS[trial.outcome],
            kind=trial.outcome,
            reward=reward,
            time=time,
            cost=format_cost(trial.cost_usd).removesuffix(" USD"),
            started=(trial.started_at or "-")[:19].replace("T", " "),
            review=_review(trial.trial_id, reviews.get(trial.trial_id, ())),
            notes=(*notes[:_MOST_NOTES], *((counted(trial.tries, "try", "tries"),) if trial.tries > 1 else ())),
        )


def _review(trial_id: str, entries: Sequence[ReviewEntry]) -> str:
    if not entries:
        return "-"
    found = review_of(trial_id, entries)
    return f"{found.state}: {found.verdict.value}" if found.verdict else found.state


def _heads(view: Viewer, key: str, query: TrialQuery) -> Iterator[SortHead]:
    for name in SORTS:
        order = {name: "ascending", f"-{name}": "descending"}.get(query.sort, "")
        turned = f"-{name}" if query.sort == name else name
        yield SortHead(name, _list_link(view, key, replace(query, sort=turned)), order)


def _list_link(view: Viewer, key: str, query: TrialQuery) -> str:
    page = {"page": str(query.page)} if query.page > 1 else {}
    return f"{view.links.job(key, **query.chosen, **page)}#trials"


def _pages(view: Viewer, key: str, selection: TrialSelection) -> dict[str, str]:
    """The links to the page before and the page after, where there are such."""
    here = selection.query.page
    near = {"previous": here - 1, "next": here + 1}
    return {
        name: _list_link(view, key, replace(selection.query, page=page))
        for name, page in near.items()
        if 1 <= page <= selection.pages
    }


def trials_json(job: LoadedJob, query: TrialQuery) -> dict[str, Any]:
    """The trials that a query asks for, for programs: the columns of every table that they read."""
    selection = select_trials(job, query, job.reviews)
    chosen = {trial.trial_id: trial for trial in selection.trials}
    arms = arms_of([replace(job, trials=tuple(selection.trials))])
    names = [column.name for column in COLUMNS]
    rows = {row["trial_id"]: row for row in (dict(zip(names, row, strict=True)) for row in trial_rows(arms))}
    return {
        "error": selection.trouble,
        "count": selection.count,
        "of": selection.of,
        "page": selection.query.page,
        "pages": selection.pages,
        "trials": [rows[trial_id] for trial_id in chosen],
    }


class _Overviews:
    """The overviews that are being made, each by one thread for all pages that wait for it."""

    def __init__(self) -> None:
        self._under_way: dict[str, asyncio.Future[Overview]] = {}

    async def wait(self, view: Viewer, key: str, patience: float | None) -> bool:
        """Whether the one of a job is made after so many seconds. Raises JobError where it cannot be."""
        under_way = self._under_way.get(key)
        if under_way is None or under_way.done():
            under_way = self._under_way[key] = asyncio.ensure_future(asyncio.to_thread(_overview, view, key))
        await asyncio.wait([under_way], timeout=patience)
        if not under_way.done():
            return False
        self._under_way.pop(key, None)
        under_way.result()
        return True


async def _trials(request: web.Request) -> web.Response:
    view, query = request.app[VIEW], read_query(request.query)

    def made() -> tuple[bytes, int]:
        found = trials_json(view.library.job(request.match_info["job"]), query)
        return orjson.dumps(found, option=orjson.OPT_NON_STR_KEYS), 400 if found["error"] else 200

    body, status = await asyncio.to_thread(made)
    return web.Response(body=body, status=status, content_type="application/json")


def routes() -> list[web.RouteDef]:
    overviews = _Overviews()

    async def job(request: web.Request) -> web.Response:
        view, key, query = request.app[VIEW], request.match_info["job"], read_query(request.query)
        patience = None if "wait" in request.headers.get("Prefer", "") else _PATIENCE_SEC
        if await overviews.wait(view, key, patience):
            return html(await asyncio.to_thread(job_page, view, key, query))
        response = html(render("reading.html.jinja", view.links, title="A job is being read"))
        response.headers["Refresh"] = "1"
        return response

    return [web.get("/jobs/{job}/", job), web.get("/api/jobs/{job}/trials", _trials)]
