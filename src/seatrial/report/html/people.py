"""The section about reviews: how far people agree, and what they make of the verifier."""

from collections.abc import Sequence

from seatrial.analysis.arms import Arm
from seatrial.report import people
from seatrial.report.document import ReportDocument
from seatrial.report.html.links import SCORED_OUTCOMES, trials_link
from seatrial.report.html.parts import PageCell, PageSection, PageTable, name_cell, number_cell
from seatrial.report.html.trial_marks import REVIEWED, REVIEWED_BY_SEVERAL, people_mark
from seatrial.report.text import harmless
from seatrial.review.agreement import AgreementReport

_VERIFIER = ("pass", "partial,fail,invalid_output,no_output")


def people_section(document: ReportDocument, report: AgreementReport) -> PageSection:
    """A few sentences, and the tables behind them."""
    overall, verifier = report.overall, report.overall.verifier
    several = trials_link(tag=REVIEWED_BY_SEVERAL)
    measures = [_cells(row, [several] * (len(row) - 1)) for row in people.measure_rows(overall)]
    confusion = [
        _cells(row, [trials_link(outcome=outcome, tag=people_mark(said)) for said in ("pass", "fail")])
        for row, outcome in zip(people.confusion_rows(verifier), _VERIFIER, strict=False)
    ]
    agents = [_agent(row, document.arms) for row in people.agent_rows(report)]
    tables = [
        PageTable("How far reviewers agree", people.MEASURE_COLUMNS, tuple(measures)),
        PageTable("The verifier against people", people.CONFUSION_COLUMNS, tuple(confusion)),
        PageTable("Pass rates, corrected by what people say", people.AGENT_COLUMNS, tuple(agents)),
    ]
    shown = tuple(table for table in tables if table.rows)
    return PageSection("people", "What do people say?", tuple(people.people_lines(report)), (), shown)


def _agent(row: people.Row, arms: Sequence[Arm]) -> tuple[PageCell, ...]:
    """The row of an agent: its trials are those of one arm, or of several in as many jobs, asked for by its name."""
    same = [arm for arm in arms if harmless(arm.agent) == row[0]]
    wanted = {"agent": same[0].label if len(same) == 1 else same[0].agent} if same else {}
    judged = trials_link(None, **wanted, outcome=SCORED_OUTCOMES)
    reviewed = trials_link(None, **wanted, outcome=SCORED_OUTCOMES, tag=REVIEWED)
    return _cells(row, [judged, reviewed, reviewed, reviewed])


def _cells(row: people.Row, targets: Sequence[str]) -> tuple[PageCell, ...]:
    return (name_cell(row[0]), *map(number_cell, row[1:], targets))
