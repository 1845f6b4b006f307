"""`seatrial agree JOB...`: how far reviewers agree, what they make of the verifier, and whether to build on it.

Exit codes of a gate: 0 ready, 1 not ready, 3 nobody can tell yet.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from seatrial.analysis.loaded import Filter, LoadedJob
from seatrial.analysis.tables import Table
from seatrial.cli.analysis_options import where_option
from seatrial.cli.job_view import readable_job
from seatrial.cli.program import command_line
from seatrial.cli.screen import show_line, show_table, show_warning
from seatrial.errors import UsageError
from seatrial.report import judges, people
from seatrial.report.text import counted, harmless
from seatrial.review.agreement import (
    WIDEST_INTERVAL,
    AgreementReport,
    Readiness,
    agreement_json,
    agreement_report,
    readiness,
)
from seatrial.review.cases import Dissent, VerifierFigures
from seatrial.review.judges import JudgeFigures, judge_figures, judges_json

_EXIT_CODES = {"open": 0, "closed": 1, "unknown": 3}
_SHOWN = 10
_MEASURES = 2
"""The measure that comes first, and the share of equal verdicts; the page and --json have the others."""


@click.command("agree")
@click.argument("jobs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="JOB...")
@where_option("Look at")
@click.option("--gate", is_flag=True, help="Exit with 1 if reviews are not ready to build on, 3 if nobody can tell.")
@click.option("--level", type=float, default=0.95, show_default=True, help="How sure intervals are.")
@click.option("--seed", type=int, default=0, show_default=True, help="For the resampling of trials.")
@click.option(
    "--width",
    type=click.FloatRange(0.0, 1.0, min_open=True),
    default=WIDEST_INTERVAL,
    show_default=True,
    help="Of an interval that a judge's corrected pass rate is to have: how many labels does it take?",
)
@click.option("--all", "everything", is_flag=True, help="Show every task and every trial that people see otherwise.")
@click.option("--json", "as_json", is_flag=True, help="Print all of it as one JSON object.")
def command(jobs: tuple[Path, ...], where: Filter, gate: bool, everything: bool, as_json: bool, **asked: Any) -> None:
    """Show how far the reviewers of the jobs in folders JOB agree: with each other, the verifier, and judges."""
    level, seed = asked["level"], asked["seed"]
    if not 0.5 <= level < 1.0:
        raise UsageError(f"--level is {level:g}, expected at least 0.5 and less than 1, such as 0.95")
    if seed < 0:
        raise UsageError(f"--seed is {seed}, expected 0 or more")
    loaded = [readable_job(folder, where) for folder in jobs]
    _refuse_copies(loaded)
    for job in loaded:
        job.store.reviews(show_warning)
    report = agreement_report(loaded, level=level, seed=seed)
    ready = readiness(report.overall)
    judged = judge_figures(loaded, **asked)
    if as_json:
        click.echo(json.dumps({**agreement_json(report, ready), "judges": judges_json(judged)}, indent=2))
    else:
        _show_agreement(report, ready, everything=everything)
        _show_judges(judged, everything=everything)
        if not report.overall.reviewed:
            click.echo(f"Review them with: {command_line('view', *map(str, jobs))}", err=True)
    if gate and (code := _EXIT_CODES[ready.state]):
        raise click.exceptions.Exit(code)


def _refuse_copies(jobs: Iterable[LoadedJob]) -> None:
    """Raise UsageError where two folders hold the same job: every trial would count twice."""
    seen: dict[str | Path, LoadedJob] = {}
    for job in jobs:
        same = seen.setdefault(job.file.id or job.path.resolve(), job)
        if same is not job:
            raise UsageError(
                f"{same.path} and {job.path} hold the same job, whose trials would count twice; "
                "`seatrial annotations merge` brings the reviews of copies together"
            )


def _show_agreement(report: AgreementReport, ready: Readiness, *, everything: bool) -> None:
    """A sentence, then tables for what there is. Of many tasks and trials only the first, unless all are wanted."""
    overall = report.overall
    show_line(people.people_headline(overall))
    if not overall.reviewed:
        return
    for line in people.review_lines(overall):
        show_line(line)
    _table("agreement", people.measures_table(overall).first(_MEASURES))
    for job in report.jobs:
        show_line(f"{harmless(job.name)}: {people.people_headline(job)}")
    _table("reviewers", people.reviewers_table(overall.reviewers))
    if len(overall.pairs) > 1:
        _table("pairs", people.pairs_table(overall.pairs))
    _show_verifier(overall.verifier, everything=everything)
    _table("agents", people.agents_table(report.agents, overall.verifier))
    if len(report.tasks) > 1:
        shown = report.tasks if everything else report.tasks[:_SHOWN]
        _table("tasks", people.tasks_table(shown))
        _rest(len(report.tasks) - len(shown), "task")
    click.echo()
    show_line(people.ready_line(ready))
    show_table("", people.gates_table(ready))


def _show_verifier(verifier: VerifierFigures, *, everything: bool) -> None:
    _table("verifier against people", people.confusion_table(verifier))
    _table("verifier", people.shares_table(verifier))
    _table("pass rate", people.rates_table(verifier))
    if verifier.confusion.trials:
        show_line(people.sampling_line(verifier))
    _dissents("verifier passed, people fail", verifier.wrong_passes, everything=everything)
    _dissents("verifier failed, people pass", verifier.wrong_fails, everything=everything)


def _show_judges(found: Sequence[JudgeFigures], *, everything: bool) -> None:
    """A table of all judges, then each that has labels of people to be compared with."""
    _table("judges", judges.judges_table(found))
    for judge in found:
        click.echo()
        show_line(judges.judge_headline(judge))
        overall = judge.overall.figures
        _table("judge against people", people.confusion_table(overall, "judge"))
        _table("judge", people.shares_table(overall, "judge"))
        _table("pass rate", people.rates_table(overall, "judge"))
        if overall.confusion.trials:
            show_line(people.sampling_line(overall, "judge"))
        _table("agents", people.agents_table(judge.agents, overall, "judge"))
        _table("questions", judges.questions_table(judge))
        dissents = judges.dissents_table(judge)
        shown = dissents if everything else dissents.first(_SHOWN)
        _table("judge and people disagree", shown)
        _rest(len(dissents.rows) - len(shown.rows), "disagreement")
        click.echo()
        show_line(judges.labels_line(judge))
        show_table("", people.gates_table(judge.ready))


def _dissents(title: str, dissents: Sequence[Dissent], *, everything: bool) -> None:
    shown = dissents if everything else dissents[:_SHOWN]
    _table(title, people.dissents_table(title, shown))
    _rest(len(dissents) - len(shown), "trial")


def _table(title: str, table: Table) -> None:
    if table.rows:
        click.echo()
        show_table(title, table)


def _rest(left: int, noun: str) -> None:
    if left > 0:
        click.echo(f"{counted(left, f'more {noun}')}; --all shows them", err=True)
