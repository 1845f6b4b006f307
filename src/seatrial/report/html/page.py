"""The whole page: sections in a template, with its own style, script and list of trials, and nothing from outside."""

import base64
import hashlib
import shlex
from importlib.resources import files
from pathlib import Path

from seatrial.report.document import ReportDocument
from seatrial.report.headline import headline
from seatrial.report.html.agents import agents_section, denominators_section
from seatrial.report.html.closing import methods_section, reproduce_section
from seatrial.report.html.comparing import compared_link, comparing_section
from seatrial.report.html.failures import failures_section
from seatrial.report.html.parts import PageSection
from seatrial.report.html.people import people_section
from seatrial.report.html.spending import cost_section, times_section
from seatrial.report.html.tasks import tasks_section
from seatrial.report.html.trial_data import trial_data
from seatrial.report.text import counted, harmless_lines


def render_html(document: ReportDocument, folder: Path | None = None) -> bytes:
    """The page of a document. `folder` is where it will lie, to link to the folders of trials from there."""
    import jinja2  # noqa: PLC0415 - slow to import, and only reports need it
    import markupsafe  # noqa: PLC0415

    def shown(value: object) -> object:
        return value if isinstance(value, markupsafe.Markup) else " ".join(harmless_lines(str(value)))

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(str(files("seatrial.report.html"))),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=shown,
    )
    environment.filters["trusted"] = markupsafe.Markup
    style, script = _file("report.css"), _file("report.js")
    page = environment.get_template("report.html.jinja").render(
        document=document,
        headline=headline(document),
        lead=compared_link(document.lead.comparison, "common") if document.lead else None,
        covered=_covered(document),
        sections=page_sections(document),
        policy=_policy(style, script),
        style=style,
        script=script,
        data=trial_data(document.arms, folder),
        folders=[shlex.quote(str(job.path)) for job in document.jobs],
    )
    return page.encode("utf-8", "replace")


def _file(name: str) -> str:
    return (files("seatrial.report.html") / name).read_text("utf-8")


def _policy(style: str, script: str) -> str:
    """What a browser may do for this page: its own style and script, known by their digests, and nothing else."""
    own = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, script)]
    return f"default-src 'none'; style-src 'sha256-{own[0]}'; script-src 'sha256-{own[1]}'; base-uri 'none'"


def page_sections(document: ReportDocument) -> list[PageSection]:
    """What the page says, part by part."""
    several = [comparing_section(document)] if document.comparisons else []
    reviewed = [people_section(document, document.people)] if document.people else []
    return [
        agents_section(document),
        tasks_section(document),
        *several,
        cost_section(document),
        times_section(document),
        failures_section(document),
        *reviewed,
        denominators_section(document),
        methods_section(document),
        reproduce_section(document),
    ]


def _covered(document: ReportDocument) -> str:
    """What the report is about, on one line."""
    trials = sum(len(arm.trials) for arm in document.arms)
    parts = [
        counted(len(document.jobs), "job"),
        counted(len(document.arms), "agent"),
        counted(len(document.heat.tasks), "task"),
        counted(trials, "trial"),
    ]
    if document.period:
        first, last = (moment.replace("T", " ") for moment in (document.period.first, document.period.last))
        parts.append(f"started {first} to {last}" if first != last else f"started {first}")
    return " · ".join(parts)
