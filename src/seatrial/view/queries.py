"""Which jobs, and which trials of a job, the list of a page has: read from an address, and chosen among all of them."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from seatrial.analysis.loaded import EVERY_TRIAL, LoadedJob, Reviews, parse_filter
from seatrial.errors import UsageError
from seatrial.model.review import ReviewEntry
from seatrial.report.html.parts import STEP, marks_of, notes_of
from seatrial.report.text import worst_first
from seatrial.store.index import TrialEntry
from seatrial.view.library import JobCard, RunState

STATES: tuple[RunState, ...] = get_args(RunState)


@dataclass(frozen=True, slots=True)
class JobQuery:
    """What an address asks for. Empty texts ask for nothing."""

    find: str = ""
    state: str = ""

    @property
    def is_narrowed(self) -> bool:
        """Whether some jobs may be left out."""
        return bool(self.find or self.state)

    def fits(self, key: str, card: JobCard, state: RunState) -> bool:
        """Whether a job is asked for: every word occurs in its name, its folder or the name of an agent."""
        text = "\n".join((key, card.name, str(card.folder), *card.agents)).casefold()
        return self.state in ("", state) and all(word in text for word in self.find.casefold().split())


def read_job_query(asked: Mapping[str, str]) -> JobQuery:
    """The query of an address. A state that there is not is left alone: it may be somebody's old bookmark."""
    state = asked.get("state", "")
    return JobQuery(asked.get("find", "").strip(), state if state in STATES else "")


# Trials of a job: which are asked for and in which order.

PAGE = 100

_ORDERS: Mapping[str, Callable[[TrialEntry], Any]] = {
    "trial": lambda trial: (trial.task_id, trial.agent, trial.attempt),
    "agent": lambda trial: (trial.agent, trial.task_id, trial.attempt),
    "outcome": lambda trial: trial.outcome,
    "reward": lambda trial: trial.reward,
    "time": lambda trial: trial.duration_sec,
    "cost": lambda trial: trial.cost_usd,
    "started": lambda trial: trial.started_at,
}
SORTS = (*_ORDERS,)
"""By what trials can be sorted, with a hyphen before it the other way round; without any, the worst come first."""


@dataclass(frozen=True, slots=True)
class TrialQuery:
    """What an address asks for. Empty texts ask for nothing. `outcome` may be several, with commas between them."""

    agent: str = ""
    outcome: str = ""
    tag: str = ""
    task: str = ""
    where: str = ""
    find: str = ""
    sort: str = ""
    page: int = 1

    @property
    def chosen(self) -> dict[str, str]:
        """What it asks for, as an address has it, without the page."""
        names = ("agent", "outcome", "tag", "task", "where", "find", "sort")
        return {name: value for name in names if (value := getattr(self, name))}

    @property
    def is_narrowed(self) -> bool:
        """Whether some trials are left out."""
        return bool(self.chosen.keys() - {"sort"})


@dataclass(frozen=True, slots=True)
class TrialSelection:
    """A page of the trials that fit. Where the query makes no sense, `trouble` says why, and there are none."""

    query: TrialQuery
    trials: Sequence[TrialEntry]
    count: int
    of: int
    trouble: str | None = None

    @property
    def pages(self) -> int:
        """How many pages they fill."""
        return max(1, math.ceil(self.count / PAGE))

    @property
    def start(self) -> int:
        """How many come before the first one here."""
        return (self.query.page - 1) * PAGE


def read_query(asked: Mapping[str, str]) -> TrialQuery:
    """The query of an address. What it does not know it leaves alone: an address may be somebody's old bookmark."""
    texts = {name: asked.get(name, "").strip() for name in TrialQuery.__slots__ if name != "page"}
    page = asked.get("page", "")
    number = int(page) if page.isascii() and page.isdecimal() and len(page) < 10 else 1
    sort = texts["sort"] if texts["sort"].removeprefix("-") in SORTS else ""
    return TrialQuery(**{**texts, "sort": sort}, page=max(1, number))


def select_trials(job: LoadedJob, query: TrialQuery, reviews: Reviews) -> TrialSelection:
    """The page of a job's trials that a query asks for; the last one where it asks for one beyond."""
    try:
        wanted = parse_filter(query.where) if query.where else EVERY_TRIAL
    except UsageError as error:
        return TrialSelection(query, (), 0, len(job.trials), str(error))
    fitting = [trial for trial in job.trials if _fits(trial, query)]
    if query.tag:
        fitting = [trial for trial in fitting if _has_tag(trial, query.tag, reviews.get(trial.trial_id, ()))]
    if wanted:
        fitting = [trial for trial in fitting if wanted.fits(trial, job.labels_of(trial.task_id))]
    if query.find:
        fitting = [*_with_words(fitting, query.find, reviews)]
    pages = max(1, math.ceil(len(fitting) / PAGE))
    query = replace(query, page=min(query.page, pages))
    start = (query.page - 1) * PAGE
    shown = _sorted(fitting, query.sort, start + PAGE)[start : start + PAGE]
    return TrialSelection(query, shown, len(fitting), len(job.trials))


def _fits(trial: TrialEntry, query: TrialQuery) -> bool:
    return (
        (not query.agent or trial.agent == query.agent)
        and (not query.task or query.task.casefold() in trial.task_id.casefold())
        and (not query.outcome or trial.outcome in query.outcome.split(","))
    )


def _has_tag(trial: TrialEntry, tag: str, entries: Sequence[ReviewEntry]) -> bool:
    if tag.startswith(STEP):
        return trial.failed_step == tag.removeprefix(STEP)
    return any(tag in (each, each.partition(":")[2]) for each in marks_of(trial, entries))


def _with_words(trials: Sequence[TrialEntry], words: str, reviews: Reviews) -> Iterator[TrialEntry]:
    """The trials in whose names, outcome, failures or reviews all of these words occur."""
    wanted = words.casefold().split()
    for trial in trials:
        said = _said(reviews.get(trial.trial_id, ()))
        text = "\n".join((trial.trial_id, trial.task_id, trial.outcome, *notes_of(trial), *said)).casefold()
        if all(word in text for word in wanted):
            yield trial


def _said(entries: Sequence[ReviewEntry]) -> Iterator[str]:
    for entry in entries:
        if entry.annotation:
            yield from (entry.annotation.notes or "", *entry.annotation.categories)


def _sorted(trials: Sequence[TrialEntry], sort: str, count: int) -> Sequence[TrialEntry]:
    """At least the first `count` trials in order. What is not known comes last, whichever way round."""
    if not sort:
        return worst_first(trials, count)
    value = _ORDERS[sort.removeprefix("-")]
    known = [(value(trial), trial) for trial in trials]
    unknown = [trial for found, trial in known if found is None]
    ordered = sorted((pair for pair in known if pair[0] is not None), key=_first, reverse=sort.startswith("-"))
    return [*(trial for _, trial in ordered), *unknown]


def _first(pair: tuple[Any, TrialEntry]) -> Any:
    return pair[0]
