"""Markdown that is shown on a code host: strangers' text in it, and tables.

Strangers make no markup, end no table cell early, and have nobody notified. Their characters are written as references,
which can begin no markup. A code host looks for people and issues in the text that it shows, whatever it was written
as; it finds none in code, nor where an invisible character is in between.
"""

import re
from dataclasses import replace
from typing import Literal

from seatrial.analysis.tables import Table
from seatrial.report.text import harmless

_LONGEST_NAME = 100
_MARKUP = re.compile(r"[^\w .,:;%/+=()'-]|_|(?<=www)\.|:(?=/)|(?<=mailto):|(?<=xmpp):", re.IGNORECASE)
_CALLS = re.compile(r"[@#]|(?i:gh)(?=-\d)")
_WORD_JOINER = "\u2060"


def _escaped(text: str) -> str:
    return _MARKUP.sub(lambda found: f"&#{ord(found[0])};", text)


def md_name(text: str) -> str:
    """A name as code, on one line and of a bounded length."""
    shown = harmless(text)
    shown = shown if len(shown) <= _LONGEST_NAME else f"{shown[:_LONGEST_NAME]}…"
    return f"<code>{_escaped(shown) or ' '}</code>"


def md_prose(text: str) -> str:
    """A sentence in which strangers' names may be."""
    return _escaped(_CALLS.sub(lambda found: found[0] + _WORD_JOINER, harmless(text)))


def markdown_table(table: Table, rule: Literal["tight", "spaced"] = "tight") -> str:
    """A table whose cells are Markdown already; numbers are to the right."""
    space = " " if rule == "spaced" else ""
    rules = [f"{space}---{space if at < table.names else f':{space}'}" for at in range(len(table.columns))]
    lines = [f"| {' | '.join(cells)} |" for cells in (table.columns, *table.rows)]
    return "\n".join([lines[0], f"|{'|'.join(rules)}|", *lines[1:]])


def escaped(table: Table) -> Table:
    """A table of strangers' words as Markdown: names are code."""
    words = table.names
    rows = [[*map(md_name, row[:words]), *map(md_prose, row[words:])] for row in table.rows]
    return replace(table, columns=[*map(md_prose, table.columns)], rows=rows)


def md_heading(text: str) -> str:
    """A stranger's words as a title."""
    return md_prose(text[:_LONGEST_NAME]).strip() or "Report"
