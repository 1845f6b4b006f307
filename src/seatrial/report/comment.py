"""A report as Markdown for the comment of a pull request: what matters first, the rest folded, never too long."""

from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

from seatrial.analysis.comparability import difference_line
from seatrial.analysis.compare import Comparison, TaskPair
from seatrial.analysis.tables import Table
from seatrial.model.outcome import format_mean
from seatrial.report.behaviour import behaviour_table, worklist_table
from seatrial.report.document import ReportDocument, arms_table, comparisons_table, headline, share_words, signed, some
from seatrial.report.judges import judge_lines
from seatrial.report.markdown import escaped, markdown_table, md_heading, md_name, md_prose
from seatrial.report.people import people_lines
from seatrial.report.text import counted

MOST_CHARACTERS = 65_000
"""A code host takes 65,536 of them."""

_LONGEST_LABEL = 40
_MOST_ARMS, _MOST_TASKS, _MOST_TAGS = 40, 20, 20


def write_markdown(document: ReportDocument, out: BinaryIO) -> None:
    """Write the comment. Parts that would make it too long are left out, which its last line then says."""
    out.write(_fitted(_parts(document)).encode())


def _fitted(parts: Iterable[str]) -> str:
    written, length, left_out = [], 0, 0
    for part in parts:
        if length + len(part) > MOST_CHARACTERS - 200:  # the last line needs some
            left_out += 1
        else:
            written.append(part)
            length += len(part) + 1
    if left_out:
        parts_left = counted(left_out, "part of this report is", "parts of this report are")
        written.append(f"_{parts_left} left out, because a comment cannot be longer._\n")
    return "\n".join(written)


def _parts(document: ReportDocument) -> Iterator[str]:
    yield f"## {md_heading(document.title)}\n"
    yield f"**{md_prose(headline(document))}**\n"
    for notice in document.notices:
        yield f"> **{'Forced' if notice.kind == 'forced' else 'Not compared'}:** {md_prose(notice.text)}\n"
    yield _table(arms_table(document, _MOST_ARMS))
    yield from _remark(some(document.arms, _MOST_ARMS, "agents"))
    if any(each.comparison.paired for each in document.comparisons):
        yield "### Comparisons\n"
        yield _table(comparisons_table(document, _MOST_ARMS))
        yield from _doubts(document)
        yield from (_flips(each.comparison) for each in document.comparisons if each.comparison.paired)
    yield from _failures(document)
    yield from _behaviour(document)
    if document.people:
        yield "### What people say\n"
        yield " ".join(md_prose(line) for line in people_lines(document.people)) + "\n"
    if document.judges:
        yield "### What judges say\n"
        yield from (f"- {md_prose(line)}" for line in judge_lines(document.judges))
        yield ""
    yield _folded("Methods", " ".join(map(md_prose, document.methods)))


def _table(table: Table) -> str:
    return markdown_table(escaped(table)) + "\n"


def _remark(text: str) -> list[str]:
    return [f"{text}\n"] if text else []


def _folded(summary: str, content: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{content}\n\n</details>\n"


def _flips(comparison: Comparison) -> str:
    won, lost = comparison.won, comparison.lost
    names = f"{md_name(comparison.second.label)} against {md_name(comparison.first.label)}"
    blocks = [*_changes(comparison, "better", won), *_changes(comparison, "worse", lost)]
    return _folded(f"{names}: {len(won):,} won, {len(lost):,} lost", "\n".join(blocks) or "No task differs.")


def _changes(comparison: Comparison, word: str, pairs: Sequence[TaskPair]) -> list[str]:
    if not pairs:
        return []
    labels = (arm.label[:_LONGEST_LABEL] for arm in (comparison.first, comparison.second))
    header = (f"tasks that are {word}", *labels, "difference in points")
    rows = [
        (pair.task_id, format_mean(pair.first), format_mean(pair.second), signed(pair.difference))
        for pair in pairs[:_MOST_TASKS]
    ]
    return [_table(Table(header, rows)), *_remark(some(pairs, _MOST_TASKS, "tasks"))]


def _doubts(document: ReportDocument) -> Iterator[str]:
    """What else differs between arms that are compared, and what makes a comparison doubtful."""
    for made in document.comparisons:
        names = f"{md_name(made.comparison.second.label)} against {md_name(made.comparison.first.label)}"
        found = [*(difference_line(each) for each in made.conditions), *made.warnings]
        lines = [f"- {md_prose(line)}" for line in found[:_MOST_TASKS]]
        if lines:
            yield (
                "\n".join([f"What to know about {names}:", "", *lines, *_remark(some(found, _MOST_TASKS, "lines"))])
                + "\n"
            )


def _behaviour(document: ReportDocument) -> Iterator[str]:
    if document.behaviour:
        yield _folded("What agents did, turn by turn", _table(behaviour_table(document.behaviour[:_MOST_ARMS])))


def _failures(document: ReportDocument) -> Iterator[str]:
    found = document.taxonomy
    if found.failures:
        header = ("failure", "agent", "source", "such as", "trials", "of a task's scored trials")
        rows = [
            (tag.category, tag.arm, tag.source, tag.examples[0], f"{tag.trials:,}", share_words(tag.of_scored))
            for tag in found.failures[:_MOST_TAGS]
        ]
        table = _table(Table(header, rows, names=4))
        more = _remark(some(found.failures, _MOST_TAGS, "rows"))
        yield _folded("Why trials failed", "\n".join([table, *more]))
    if document.work:
        yield _folded("What to do", _table(worklist_table(document.work, _MOST_TAGS)))
    if found.unjudged:
        trials = sum(cause.trials for cause in found.unjudged)
        lines = [
            f"- {counted(cause.trials, 'trial')} of {md_name(cause.arm)}, {md_prose(cause.outcome)}: "
            f"{md_name(cause.reason)} (such as {md_name(cause.example)})"
            for cause in found.unjudged[:_MOST_TAGS]
        ]
        more = _remark(some(found.unjudged, _MOST_TAGS, "reasons"))
        yield _folded(f"{counted(trials, 'trial has', 'trials have')} no verdict", "\n".join([*lines, "", *more]))
