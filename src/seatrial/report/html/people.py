"""The section about reviews: how far people agree, and what they make of the verifier."""

from collections.abc import Sequence

from seatrial.report import people
from seatrial.report.html.parts import PageCell, PageSection, PageTable, name_cell, number_cell
from seatrial.review.agreement import AgreementReport


def people_section(report: AgreementReport) -> PageSection:
    """A few sentences, and the tables behind them."""
    overall, verifier = report.overall, report.overall.verifier
    tables = [
        _table("How far reviewers agree", people.MEASURE_COLUMNS, people.measure_rows(overall)),
        _table("The verifier against people", people.CONFUSION_COLUMNS, people.confusion_rows(verifier)),
        _table("Pass rates, corrected by what people say", people.AGENT_COLUMNS, people.agent_rows(report)),
    ]
    shown = tuple(table for table in tables if table.rows)
    return PageSection("people", "What do people say?", tuple(people.people_lines(report)), (), shown)


def _table(caption: str, columns: Sequence[str], rows: Sequence[people.Row]) -> PageTable:
    return PageTable(caption, tuple(columns), tuple(_cells(row) for row in rows))


def _cells(row: people.Row) -> tuple[PageCell, ...]:
    return (name_cell(row[0]), *(number_cell(text) for text in row[1:]))
