"""Links from numbers to the trials they are made of: fragments that the page's own list of trials understands."""

import html
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from urllib.parse import parse_qsl, quote

from seatrial.analysis.arms import Arm
from seatrial.analysis.tally import OUTCOMES, SCORED
from seatrial.report.formats.clean_text import utf8_text
from seatrial.report.html.parts import PageCell, PageSection, PageTable

_LINKED = re.compile(r'(?<= href=")#trials(?:\?([^"]*))?(?=")')

Aim = Callable[[Mapping[str, str]], str]
"""Where the trials with some values are, on pages that have no list of all of them."""

SCORED_OUTCOMES = ",".join(outcome for outcome in OUTCOMES if outcome in SCORED)

LONGEST_NOTE = 200
"""Of what is said beside a trial, the list of trials has no more characters, so a link asks for no more."""


def trials_link(arm: Arm | None = None, **wanted: str) -> str:
    """A fragment that shows the trials of an arm, or of all, with these values of `task`, `outcome`, `tag`, `trial`.

    An `agent` that is no arm's label is the name of one that several arms have. `against` is the label of a second arm
    whose trials are shown too, and `tasks` of `common`, `won` or `lost` leaves the tasks that both were judged on, or
    those of them that the first one did better or worse at.
    """
    chosen = {"agent": arm.label, **wanted} if arm else wanted
    if "tag" in chosen:
        chosen["tag"] = chosen["tag"][:LONGEST_NOTE]
    pairs = [f"{key}={quote(utf8_text(value), safe=',:')}" for key, value in chosen.items()]
    return f"#trials?{'&'.join(pairs)}" if pairs else "#trials"


def aimed(section: PageSection, aim: Aim) -> PageSection:
    """A section whose links, in tables and pictures, lead to where another page has the trials."""
    figures = tuple(
        replace(each, svg=_LINKED.sub(partial(_attribute, aim), each.svg), table=_table(each.table, aim))
        for each in section.figures
    )
    return replace(section, figures=figures, tables=tuple(_table(each, aim) for each in section.tables))


def _table(table: PageTable, aim: Aim) -> PageTable:
    return replace(table, rows=tuple(tuple(_cell(cell, aim) for cell in row) for row in table.rows))


def _cell(cell: PageCell, aim: Aim) -> PageCell:
    return replace(cell, target=aim(_chosen(cell.target))) if cell.target else cell


def _attribute(aim: Aim, found: re.Match[str]) -> str:
    return html.escape(aim(_chosen(html.unescape(found[0]))))


def _chosen(fragment: str) -> dict[str, str]:
    """What `trials_link` wrote into a fragment."""
    return dict(parse_qsl(fragment.partition("?")[2], keep_blank_values=True))
