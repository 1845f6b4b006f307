"""What a job amounts to, as the part of its page that is the same whichever of its trials are listed.

It is the words, tables and pictures of a report; only their links lead to the trials of the viewer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import markupsafe

from seatrial.analysis.loaded import LoadedJob
from seatrial.report.document import make_document
from seatrial.report.headline import headline
from seatrial.report.html.agents import agents_section, denominators_section
from seatrial.report.html.failures import failures_section
from seatrial.report.html.links import aimed
from seatrial.report.html.people import people_section
from seatrial.report.html.tasks import tasks_section
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
