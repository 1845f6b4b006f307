"""Two jobs, or the agents of one, side by side: first whether they can be compared, then the answer, then where."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import markupsafe
from aiohttp import web

from seatrial.analysis.arms import Arm
from seatrial.analysis.comparability import Weight
from seatrial.analysis.compare import (
    ComparedPair,
    CompareOptions,
    Comparison,
    Flip,
    compare_jobs,
    dimension_differences,
    measured_differences,
)
from seatrial.analysis.loaded import LoadedJob
from seatrial.errors import JobError, SeatrialError
from seatrial.report.compared import (
    answer,
    arm_line,
    differences_table,
    forced_line,
    how_tested,
    measured_table,
    parts_table,
    passed_of,
    several_tasks,
)
from seatrial.report.html.parts import PageTable, page_table
from seatrial.report.pictures.pictures import FlipRow, flips_picture
from seatrial.view.app import VIEW, Viewer, html
from seatrial.view.templating import render


@dataclass(frozen=True, slots=True)
class CompareQuery:
    """What an address asks for: two jobs, or one, and agents of them. `force` compares what should not be."""

    a: str = ""
    b: str = ""
    agent_a: str = ""
    agent_b: str = ""
    force: str = ""

    @property
    def chosen(self) -> dict[str, str]:
        """What it asks for, as an address has it."""
        return {name: value for name in self.__slots__ if (value := getattr(self, name))}

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents that are named, each once."""
        return tuple(dict.fromkeys(filter(None, (self.agent_a, self.agent_b))))


def compare_page(view: Viewer, query: CompareQuery) -> str:
    """The page of a comparison; without jobs, only the form that asks for them."""

    jobs = view.library.find()
    keys = query.a, query.b or query.a
    found = compared(view, keys, query.agents, force=bool(query.force)) if query.a else Compared()
    return render(
        "compare.html.jinja",
        view.links,
        title=f"Compare {' and '.join(dict.fromkeys(keys))}" if query.a else "Compare",
        query=query,
        keys=[*jobs],
        agents=[tuple(view.library.card(key).agents) if key in jobs else () for key in keys],
        found=found,
        forced_link=view.links.compare(**{**query.chosen, "force": "yes"}) if found.refused else None,
    )


async def _compare(request: web.Request) -> web.Response:
    query = CompareQuery(**{name: request.query.get(name, "") for name in CompareQuery.__slots__})
    return html(await asyncio.to_thread(compare_page, request.app[VIEW], query))


def routes() -> list[web.RouteDef]:
    return [web.get("/compare", _compare)]


# What the page shows of a comparison.

_MOST_FLIPS, _MOST_DRAWN, _MOST_TRIALS = 50, 15, 5
_WEIGHTS: dict[Weight, str] = {
    "meaning": "Changes what a reward means",
    "condition": "Conditions that are not the same",
    "subject": "What is compared",
}


@dataclass(frozen=True, slots=True)
class FlipLine:
    """A task that only one side passed, with how many trials of both did, and these trials."""

    task: str
    passed: tuple[str, str]
    first: tuple[tuple[str, str], ...]
    second: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class PairShown:
    """One comparison as the page shows it."""

    lines: tuple[str, str]
    verdict: str
    answer: str
    how: str | None
    warnings: Sequence[str]
    differences: Sequence[PageTable]
    picture: markupsafe.Markup | None
    flips: Mapping[str, Sequence[FlipLine]]
    parts: Sequence[PageTable]


@dataclass(frozen=True, slots=True)
class Compared:
    """What came of a comparison: pairs of agents; or the trouble with it, and whether it was refused to who may insist.

    `forced` is what must be said beside every number of pairs that should not be compared.
    """

    pairs: Sequence[PairShown] = ()
    left_out: Sequence[str] = ()
    forced: str | None = None
    trouble: str | None = None
    refused: bool = False


def compared(view: Viewer, keys: tuple[str, str], agents: Sequence[str], *, force: bool) -> Compared:
    """Compare the jobs of two keys, or with the same key twice the agents of one."""
    first = view.library.job(keys[0])
    second = view.library.job(keys[1]) if keys[1] != keys[0] else None
    try:
        made = compare_jobs(first, second, agents, CompareOptions(force=force))
    except JobError as error:
        return Compared(trouble=str(error), refused=not force and _can_be_forced(first, second, agents))
    names = {id(made.first): keys[0], id(made.second): keys[1]}
    pairs = [_pair(view, pair, names, index) for index, pair in enumerate(made.pairs)]
    return Compared(pairs, made.left_out, forced_line(made))


def _can_be_forced(first: LoadedJob, second: LoadedJob | None, agents: Sequence[str]) -> bool:
    try:
        compare_jobs(first, second, agents, CompareOptions(force=True))
    except SeatrialError:
        return False
    return True


def _pair(view: Viewer, pair: ComparedPair, keys: Mapping[int, str], index: int) -> PairShown:
    comparison = pair.comparison
    flips = {"Passed by B and not by A": comparison.gained, "Passed by A and not by B": comparison.dropped}
    linked = partial(_flip, view, comparison, keys)
    return PairShown(
        lines=(arm_line(comparison.first), arm_line(comparison.second)),
        verdict=comparison.verdict,
        answer=answer(comparison),
        how=how_tested(comparison),
        warnings=pair.comparability.warnings,
        differences=[*_differences(pair)],
        picture=_picture(view, comparison, keys, index),
        flips={title: [*map(linked, each[:_MOST_FLIPS])] for title, each in flips.items() if each},
        parts=[*_parts(comparison)],
    )


def _differences(pair: ComparedPair) -> Iterator[PageTable]:
    for weight, title in _WEIGHTS.items():
        if found := pair.comparability.of(weight):
            yield page_table(title, differences_table("what differs", found))


def _parts(comparison: Comparison) -> Iterator[PageTable]:
    tables = {
        "Parts of the breakdown": parts_table("", several_tasks(dimension_differences(comparison))),
        "What a judged trial took": measured_table("", measured_differences(comparison)),
    }
    for title, table in tables.items():
        if table.rows:
            yield page_table(title, table)


def _picture(view: Viewer, comparison: Comparison, keys: Mapping[int, str], index: int) -> markupsafe.Markup | None:
    """The tasks with the largest differences; they lead to the trials of B."""
    shown = [*comparison.won[:_MOST_DRAWN], *reversed(comparison.lost[:_MOST_DRAWN])]
    if not shown:
        return None
    second = comparison.second
    rows = [
        FlipRow(
            pair.task_id,
            pair.first,
            pair.second,
            f"{view.links.job(keys[id(second.job)], agent=second.agent, task=pair.task_id)}#trials",
        )
        for pair in shown
    ]
    drawn = flips_picture(f"flips-{index}", comparison.first.label, second.label, rows)
    return markupsafe.Markup(drawn)  # noqa: S704 - made of escaped parts


def _flip(view: Viewer, comparison: Comparison, keys: Mapping[int, str], flip: Flip) -> FlipLine:
    def linked(arm: Arm, trials: Sequence[str]) -> tuple[tuple[str, str], ...]:
        return tuple((trial, view.links.trial(keys[id(arm.job)], trial)) for trial in trials[:_MOST_TRIALS])

    first, second = map(passed_of, (flip.first, flip.second), flip.passed)
    return FlipLine(
        flip.task_id, (first, second), linked(comparison.first, flip.first), linked(comparison.second, flip.second)
    )
