"""A report as LaTeX tables to print: the arms, and how they compare. They need the package booktabs."""

import re
from typing import BinaryIO

from seatrial.analysis.tables import Table
from seatrial.model.outcome import format_reward
from seatrial.report.document import (
    DIFFERENCE_INTERVAL,
    INTERVAL,
    ReportDocument,
    arms_table,
    comparisons_table,
    percent,
)
from seatrial.report.text import counted, harmless

_MOST_ROWS = 500
_LONGEST_NAME = 100
# A bracket or a star after the end of a row would belong to it.
_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "_": r"\_",
    "%": r"\%",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": r"\textasciigrave{}",
    '"': "''",
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
}
_TO_ESCAPE = re.compile("[" + re.escape("".join(_SPECIAL)) + "]")

_LIGATURE = re.compile("-(?=-)")
_MINUS = re.compile(r"(?<!\S)-(?=\d)")


def latex_text(text: str) -> str:
    """A stranger's text, on one line, as LaTeX prints it."""
    return _LIGATURE.sub("-{}", _TO_ESCAPE.sub(lambda found: _SPECIAL[found[0]], harmless(text)))


def write_latex(document: ReportDocument, out: BinaryIO) -> None:
    """Write a table of the arms, and one of the comparisons where there are some."""
    tables = [latex_table(arms_table(document, _MOST_ROWS), _arms_caption(document), "tab:seatrial-results")]
    comparisons = comparisons_table(document, _MOST_ROWS)
    if comparisons.rows:
        tables.append(latex_table(comparisons, _comparisons_caption(document), "tab:seatrial-comparisons"))
    out.write("\n".join(["% Needs \\usepackage{booktabs}.", *tables]).encode())


def latex_table(table: Table, caption: str, label: str) -> str:
    """A table with a caption: names to the left, numbers to the right."""
    header, *rows = [
        [_cell(cell, is_name=index < table.names) for index, cell in enumerate(row)]
        for row in (table.columns, *table.rows)
    ]
    sides = "l" * table.names + "r" * (len(header) - table.names)
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{latex_text(caption)}}}",
        rf"\label{{{label}}}",
        rf"\begin{{tabular}}{{{sides}}}",
        r"\toprule",
        rf"{' & '.join(header)} \\",
        r"\midrule",
        *(rf"{' & '.join(row)} \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _cell(text: str, *, is_name: bool) -> str:
    escaped = latex_text(text[:_LONGEST_NAME])
    return escaped if is_name else _MINUS.sub("$-$", escaped)


def _arms_caption(document: ReportDocument) -> str:
    tasks = {task for arm in document.arms for task in arm.rewards}
    scored = sum(arm.figures.scored for arm in document.arms)
    planned = sum(arm.figures.planned for arm in document.arms)
    thresholds = " or ".join(map(format_reward, document.thresholds))
    level = percent(document.options.level)
    return (
        f"{document.title[:_LONGEST_NAME]}: means over {counted(len(tasks), 'task')} of {scored:,} scored of "
        f"{counted(planned, 'planned trial')}, with {level} intervals ({INTERVAL}). "
        f"A trial passes with a reward of at least {thresholds}."
    )


def _comparisons_caption(document: ReportDocument) -> str:
    adjusted = f", after Holm for {counted(document.tested, 'comparison')}" if document.tested > 1 else ""
    level, seed = percent(document.options.level), document.options.seed
    forced = " The comparison was forced: a reward does not mean the same for all of them." if document.forced else ""
    return (
        f"{document.title[:_LONGEST_NAME]}: differences of task means in points, with {level} intervals "
        f"({DIFFERENCE_INTERVAL}) and p-values of a sign-flip test{adjusted}; seed {seed}.{forced}"
    )
