"""What reviews amount to, on the screen: agreement first, then the verifier against people, then what is missing."""

from collections.abc import Sequence

import click

from seatrial.cli.render import show_line, show_table
from seatrial.report import people
from seatrial.report.text import counted, harmless
from seatrial.review.agreement import AgreementReport
from seatrial.review.readiness import Readiness
from seatrial.review.verifier import Dissent, VerifierFigures

_SHOWN = 10


def show_agreement(report: AgreementReport, ready: Readiness, *, everything: bool) -> None:
    """A sentence, then tables for what there is. Of many tasks and trials only the first, unless all are wanted."""
    overall = report.overall
    show_line(people.people_headline(overall))
    if not overall.reviewed:
        return
    for line in people.review_lines(overall):
        show_line(line)
    _table("agreement", people.MEASURE_COLUMNS, people.measure_rows(overall))
    for job in report.jobs:
        show_line(f"{harmless(job.name)}: {people.people_headline(job)}")
    _table("reviewers", people.REVIEWER_COLUMNS, people.reviewer_rows(overall.reviewers))
    if len(overall.pairs) > 1:
        _table("pairs", people.PAIR_COLUMNS, people.pair_rows(overall.pairs))
    _show_verifier(overall.verifier, everything=everything)
    _table("agents", people.AGENT_COLUMNS, people.agent_rows(report))
    if len(report.tasks) > 1:
        shown = report.tasks if everything else report.tasks[:_SHOWN]
        _table("tasks", people.TASK_COLUMNS, people.task_rows(shown))
        _rest(len(report.tasks) - len(shown), "task")
    click.echo()
    show_line(people.ready_line(ready))
    show_table("", people.GATE_COLUMNS, people.gate_rows(ready))


def _show_verifier(verifier: VerifierFigures, *, everything: bool) -> None:
    _table("verifier against people", people.CONFUSION_COLUMNS, people.confusion_rows(verifier))
    _table("verifier", people.SHARE_COLUMNS, people.share_rows(verifier))
    _table("pass rate", people.RATE_COLUMNS, people.rate_rows(verifier))
    if verifier.confusion.trials:
        show_line(people.sampling_line(verifier))
    _dissents("verifier passed, people fail", verifier.wrong_passes, everything=everything)
    _dissents("verifier failed, people pass", verifier.wrong_fails, everything=everything)


def _dissents(title: str, dissents: Sequence[Dissent], *, everything: bool) -> None:
    shown = dissents if everything else dissents[:_SHOWN]
    _table(title, (title, *people.DISSENT_COLUMNS[1:]), people.dissent_rows(shown))
    _rest(len(dissents) - len(shown), "trial")


def _table(title: str, columns: Sequence[str], rows: Sequence[people.Row]) -> None:
    if rows:
        click.echo()
        show_table(title, columns, rows)


def _rest(left: int, noun: str) -> None:
    if left > 0:
        click.echo(f"{counted(left, f'more {noun}')}; --all shows them", err=True)
