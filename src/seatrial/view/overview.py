"""What a job amounts to, as the part of its page that is the same whichever of its trials are listed.

It is the words, tables and pictures of a report; only their links lead to the trials of the viewer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import markupsafe

from seatrial.analysis.figures import SCORED
from seatrial.analysis.loaded import LoadedJob
from seatrial.model.outcome import Outcome
from seatrial.report.document import headline, make_document
from seatrial.report.html.parts import aimed
from seatrial.report.html.sections import (
    agents_section,
    denominators_section,
    failures_section,
    judges_section,
    people_section,
    tasks_section,
)
from seatrial.report.pictures.drawing import element
from seatrial.report.text import OUTCOME_WORDS
from seatrial.view.links import Links
from seatrial.view.templating import render

_MOST_SQUARES = 500
"""Of the heat map: with more, a page would have more bytes of them than of all else."""

_MOST_NAMES = 200


@dataclass(frozen=True, slots=True)
class Overview:
    """The headline, the sections as HTML, and what trials can be asked for by: their agents, outcomes and tags."""

    headline: str
    sections: markupsafe.Markup
    agents: tuple[str, ...]
    outcomes: tuple[str, ...]
    tags: tuple[str, ...]


def make_overview(links: Links, key: str, job: LoadedJob) -> Overview:
    """The overview of a job; takes seconds of one with 100,000 trials."""
    document = make_document([job])
    aim = partial(_aim, links, key)
    made = [
        agents_section(document),
        tasks_section(document, _MOST_SQUARES),
        failures_section(document),
        *([people_section(document, document.people)] if document.people else []),
        *([judges_section(document)] if document.judges else []),
        denominators_section(document),
    ]
    sections = [aimed(section, aim) for section in made]
    tags = sorted({tag for trial in job.trials for tag in trial.tags})
    return Overview(
        headline=headline(document),
        sections=markupsafe.Markup(render("overview.html.jinja", links, sections=sections)),  # noqa: S704 - made here
        agents=(*job.summary.agents,),
        outcomes=tuple(sorted({trial.outcome for trial in job.trials})),
        tags=tuple(tags[:_MOST_NAMES]),
    )


def _aim(links: Links, key: str, chosen: Mapping[str, str]) -> str:
    """A single trial has a page of its own; others are listed on the page of their job."""
    if trial := chosen.get("trial"):
        return links.trial(key, trial)
    return f"{links.job(key, **chosen)}#trials"


# How trials ended, as a small bar.

_WIDTH, _HEIGHT = 200.0, 10.0
_KINDS = ("pass", "partial", "fail", "none")


def outcome_bar(counts: Mapping[Outcome, int], planned: int) -> markupsafe.Markup:
    """The bar of so many planned trials. Its title has the numbers."""
    shares = dict.fromkeys(_KINDS, 0)
    for outcome, count in counts.items():
        shares[_kind(outcome)] += count
    whole = max(planned, sum(shares.values()), 1)
    parts, x = [], 0.0
    for kind, count in shares.items():
        wide = _WIDTH * count / whole
        if count:
            parts.append(element("rect", {"class": f"bar-{kind}", "x": x, "y": 0.0, "width": wide, "height": _HEIGHT}))
        x += wide
    attributes = {"class": "outcomes", "viewBox": "0 0 200 10", "preserveAspectRatio": "none", "role": "img"}
    told = element("title", {}, markupsafe.escape(outcome_words(counts, planned)))
    return markupsafe.Markup(element("svg", attributes, told, *parts))  # noqa: S704 - made of escaped parts


def outcome_words(counts: Mapping[Outcome, int], planned: int) -> str:
    """The same in words."""
    words = [f"{count:,} {OUTCOME_WORDS[outcome]}" for outcome, count in counts.items() if count]
    if (left := planned - sum(counts.values())) > 0:
        words.append(f"{left:,} not run yet")
    return ", ".join(words) or "no trials"


def _kind(outcome: Outcome) -> str:
    if outcome in ("pass", "partial"):
        return outcome
    return "fail" if outcome in SCORED else "none"
