"""The section about failures: what went wrong, how often, at which step; and what no agent is to blame for, apart."""

from collections.abc import Sequence

from seatrial.analysis.arms import Arm
from seatrial.analysis.taxonomy import FailedCount, StepCount, TagCount, UnjudgedCount
from seatrial.report.document import ReportDocument
from seatrial.report.html.links import SCORED_OUTCOMES, trials_link
from seatrial.report.html.parts import PageCell, PageSection, PageTable, estimate_cell, name_cell, number_cell
from seatrial.report.html.trial_marks import STEP, UNCLASSIFIED
from seatrial.report.text import counted

_FAILED = "partial,fail,invalid_output,no_output"
_SHARES = "share of a task's judged trials", "share of a task's failed trials"
_TAG_HEAD = ("category", "said by", "agent", "trials", *_SHARES, "example")


def failures_section(document: ReportDocument) -> PageSection:
    """Tables of the taxonomy, each only where it says something."""
    arms = {arm.label: arm for arm in document.arms}
    found = document.taxonomy
    rest = (
        f"{counted(found.left_out, 'less frequent category', 'less frequent categories')} not shown."
        if found.left_out
        else ""
    )
    tables = [
        PageTable(
            "Judged trials that did not pass",
            ("agent", "judged", "failed", "of these unclassified"),
            _totals(found.totals, arms),
        ),
        PageTable("Failures by category", _TAG_HEAD, _tags(found.failures, arms), rest),
        PageTable("First failing step", ("step", "agent", "trials", "example"), _steps(found.steps, arms)),
        PageTable("Observed beside the verdict, no failure by itself", _TAG_HEAD, _tags(found.evidence, arms)),
        PageTable(
            "Not judged, and no fault of an agent",
            ("reason", "outcome", "agent", "trials", "example"),
            _unjudged(found.unjudged, arms),
        ),
    ]
    said = "Shares are means over tasks with their intervals. A trial may be in several categories."
    shown = tuple(table for table in tables if table.rows)
    return PageSection("failures", "What goes wrong?", (said,), (), shown)


def _totals(counts: Sequence[FailedCount], arms: dict[str, Arm]) -> tuple[tuple[PageCell, ...], ...]:
    return tuple(
        (
            name_cell(count.arm, trials_link(arms[count.arm])),
            number_cell(f"{count.scored:,}", trials_link(arms[count.arm], outcome=SCORED_OUTCOMES)),
            number_cell(f"{count.failed:,}", trials_link(arms[count.arm], outcome=_FAILED)),
            number_cell(
                f"{count.unclassified:,}", trials_link(arms[count.arm], tag=UNCLASSIFIED) if count.failed else None
            ),
        )
        for count in counts
    )


def _tags(counts: Sequence[TagCount], arms: dict[str, Arm]) -> tuple[tuple[PageCell, ...], ...]:
    return tuple(_tag(count, arms[count.arm]) for count in counts)


def _tag(count: TagCount, arm: Arm) -> tuple[PageCell, ...]:
    tagged = f"{count.source}:{count.category}"
    return (
        name_cell(count.category),
        name_cell(count.source),
        name_cell(count.arm),
        number_cell(f"{count.trials:,}", trials_link(arm, tag=tagged)),
        estimate_cell(count.of_scored, trials_link(arm, tag=tagged)),
        estimate_cell(count.of_failed, trials_link(arm, tag=tagged, outcome=_FAILED)),
        _example(arm, count.examples[0]),
    )


def _steps(counts: Sequence[StepCount], arms: dict[str, Arm]) -> tuple[tuple[PageCell, ...], ...]:
    return tuple(
        (
            name_cell(count.step),
            name_cell(count.arm),
            number_cell(f"{count.trials:,}", trials_link(arms[count.arm], tag=f"{STEP}{count.step}")),
            _example(arms[count.arm], count.example),
        )
        for count in counts
    )


def _unjudged(counts: Sequence[UnjudgedCount], arms: dict[str, Arm]) -> tuple[tuple[PageCell, ...], ...]:
    return tuple(
        (
            name_cell(count.reason),
            name_cell(count.outcome),
            name_cell(count.arm),
            number_cell(f"{count.trials:,}", trials_link(arms[count.arm], outcome=count.outcome)),
            _example(arms[count.arm], count.example),
        )
        for count in counts
    )


def _example(arm: Arm, trial_id: str) -> PageCell:
    return name_cell(trial_id, trials_link(arm, trial=trial_id))
