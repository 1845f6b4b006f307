"""`seatrial judge JOB`: have language models answer the questions of a rubric about the trials of a job."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from seatrial.analysis.loaded import Filter, filter_job, load_job
from seatrial.analysis.tables import Row, Table
from seatrial.check.judges import CheckedJudge, check_judges, checked_json, subjects_of_job, subjects_of_task
from seatrial.cli.analysis_options import where_option
from seatrial.cli.long_run import cancelled_by_signals, relax_gc
from seatrial.cli.options import OptionGroup, grouped
from seatrial.cli.program import command_line
from seatrial.cli.running import INTERRUPTED, terminated_like_interrupted
from seatrial.cli.screen import show_line, show_table
from seatrial.jobs.judging import (
    USUAL_CONCURRENT,
    Judged,
    JudgeOptions,
    PreparedJudging,
    prepare_judging,
    run_judging,
)
from seatrial.model.assessment import Assessment
from seatrial.report.assessments import TRIAL_COLUMNS, trial_row
from seatrial.report.text import counted, format_cost, harmless
from seatrial.store.files import JOB
from seatrial.store.index import TrialEntry
from seatrial.store.job_store import JobStore

_AT_LEAST_1 = click.IntRange(min=1)

ASKING = (
    click.option("--upstream", metavar="UPSTREAM", help="Where the judges are.  [the provider of each model]"),
    click.option("--samples", type=_AT_LEAST_1, metavar="N", help="Ask each judge N times.  [the rubric's]"),
    click.option("--allow-self", is_flag=True, help="Let a model judge the trials of its own agent."),
)
"""Options of every command that asks judges."""

LIMITS = (
    click.option(
        *("-n", "--concurrent"), type=_AT_LEAST_1, metavar="N", help=f"Trials at a time.  [{USUAL_CONCURRENT}]"
    ),
    click.option(
        "--max-cost",
        type=click.FloatRange(min=0, min_open=True),
        metavar="USD",
        help="Stop asking when judges have cost this much.",
    ),
)
"""Options of every command that asks judges, about how it is done."""

_WHAT = OptionGroup(
    "What to judge, and by whom",
    (
        click.option(
            "--rubric",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="The questions, for all trials.  [tests/rubric.toml of each task]",
        ),
        click.option(
            "--judge",
            "judges",
            multiple=True,
            metavar="MODEL",
            help="A model that judges; several are several judges.  [those of the rubric]",
        ),
        where_option("Judge"),
        *ASKING,
    ),
)
_HOW = OptionGroup(
    "How",
    (
        *LIMITS,
        click.option("--check", "checking", is_flag=True, help="Test the judge instead; JOB may be a task."),
        click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each assessment."),
    ),
)
_EXAMPLES = """
seatrial judge jobs/first --rubric report.toml --judge claude-sonnet-5
seatrial judge jobs/first --judge gpt-5 --judge claude-sonnet-5 --samples 3
seatrial judge jobs/first --where outcome=fail --max-cost 2
seatrial judge --check jobs/first --rubric report.toml --judge claude-sonnet-5
"""


@click.command("judge", cls=grouped(_WHAT, _HOW), epilog=_EXAMPLES)
@click.argument("job", type=click.Path(path_type=Path))
@_WHAT
@_HOW
@click.pass_context
def command(context: click.Context, /, job: Path, **options: Any) -> None:
    """Have models answer the questions of a rubric about the trials of the job in folder JOB.

    Their assessments stand beside the rewards and change none. What was asked before is not asked again, so the same
    command resumes after an interruption. Exit codes: 1 when trials were not assessed because a provider failed or the
    limit of cost is reached, 130 when interrupted.

    With --check the judge itself is tested, on a few trials or on the golden answers of a task, and nothing is stored:
    do its answers change with repeats, order, wording, length or injected instructions? Exit code: 1 when they do.
    """
    asked = options_asked(options, options["rubric"])
    if options["checking"]:
        with terminated_like_interrupted():
            context.exit(_check(job, options["where"], asked, as_json=options["as_json"]))
    found = filter_job(load_job(job), options["where"])
    context.exit(judge_trials(found.store, found.trials, asked, as_json=options["as_json"]))


def options_asked(options: Mapping[str, Any], rubric: Path | None = None, *, turns: bool = False) -> JudgeOptions:
    """What ASKING and LIMITS say, about a rubric or about turns."""
    return JudgeOptions(
        rubric=rubric,
        turns=turns,
        models=options["judges"],
        upstream=options["upstream"],
        samples=options["samples"],
        concurrent=options["concurrent"],
        max_cost_usd=options["max_cost"],
        allow_self=options["allow_self"],
    )


def judge_trials(
    store: JobStore,
    trials: Sequence[TrialEntry],
    asked: JudgeOptions,
    *,
    as_json: bool = False,
    is_quiet: bool = False,
) -> int:
    """Have trials assessed, and return the exit code. A quiet one prints progress and faults alone."""
    with terminated_like_interrupted():
        prepared = prepare_judging(store, trials, asked)
        for notice in prepared.notices:
            click.echo(f"Note: {harmless(notice)}", err=True)
        return _carry_out(prepared, as_json=as_json, is_quiet=is_quiet)


def _check(place: Path, where: Filter, asked: JudgeOptions, *, as_json: bool) -> int:
    """Put the battery to the judges, and return the exit code."""
    store = None
    if (place / JOB).is_file():
        found = filter_job(load_job(place), where)
        store, subjects = found.store, subjects_of_job(found.store, found.trials, asked)
    else:
        subjects = subjects_of_task(place, asked)
    try:
        checked = asyncio.run(cancelled_by_signals(check_judges(subjects, asked, store)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        return INTERRUPTED
    if as_json:
        click.echo(json.dumps(checked_json(checked), indent=2))
    for each in () if as_json else checked:
        _show_checked(each)
    return int(any(each.failed for each in checked))


def _show_checked(checked: CheckedJudge) -> None:
    """A line about the judge, a row for each probe, and examples of what failed."""
    failed = [probe for probe in checked.probes if probe.state == "fail"]
    result = f"{counted(len(failed), 'probe')} failed" if failed else "no probe failed"
    show_line(harmless(f"{checked.judge} by {checked.rubric}, shown {', '.join(checked.works)}: {result}"))
    rows = [
        (each.probe, each.state, f"{each.changed:,} of {each.compared:,}" if each.compared else "-", each.message)
        for each in checked.probes
    ]
    show_table("", Table(("probe", "", "changed", "what it means"), [tuple(map(harmless, row)) for row in rows]))
    for probe in failed:
        for example in probe.examples:
            show_line(harmless(f"{probe.probe}: {example}"))


def _carry_out(job: PreparedJudging, *, as_json: bool, is_quiet: bool) -> int:
    """Carry it out to its end, and return the exit code."""
    progress = _Progress(len(job.trials), as_json=as_json)
    relax_gc()
    try:
        outcome = asyncio.run(cancelled_by_signals(run_judging(job, progress.note)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        click.echo("Interrupted. What was assessed is stored; the same command asks for the rest.", err=True)
        return INTERRUPTED
    if not as_json and not is_quiet:
        progress.show_table(job.store.path)
    missing = len(job.trials) - outcome.ended
    for each in outcome.failed:
        click.echo(harmless(f"not assessed: {each.trial_id}: {each.failure}"), err=True)
    if outcome.stopped:
        more = f"; {counted(missing, 'more trial')} not asked about" if missing else ""
        click.echo(harmless(f"stopped: {outcome.stopped}{more}"), err=True)
    return int(bool(outcome.failed or outcome.stopped))


class _Progress:
    """Prints each trial as it ends, and keeps of it what the table at the end has."""

    def __init__(self, total: int, *, as_json: bool) -> None:
        self._total = total
        self._as_json = as_json
        self._done = self._calls = 0
        self._cost: float | None = 0.0
        self._example: str | None = None
        self._rows: list[Row] = []

    def note(self, judged: Judged) -> None:
        self._done += 1
        if self._as_json:
            document = {
                "trial_id": judged.trial_id,
                "failure": judged.failure,
                "earlier": judged.is_earlier,
                "assessment": judged.assessment.model_dump(mode="json") if judged.assessment else None,
            }
            click.echo(json.dumps(document))
            return
        width = len(str(self._total))
        click.echo(harmless(f"[{self._done:>{width}}/{self._total}] {judged.trial_id}: {_result(judged)}"), err=True)
        self._rows.append(trial_row(judged.trial_id, judged.assessment, _remark(judged)))
        if judged.assessment and not judged.is_earlier:
            self._count(judged.assessment)

    def _count(self, fresh: Assessment) -> None:
        self._example = self._example or fresh.trial_id
        self._calls += fresh.usage.calls
        cost = fresh.usage.cost_usd
        self._cost = None if cost is None or self._cost is None else self._cost + cost

    def show_table(self, job: Path) -> None:
        """A row for each trial, and what all of them took."""
        show_table("", Table(TRIAL_COLUMNS, sorted(self._rows)))
        if self._example:
            cost = "cost not known" if self._cost is None else format_cost(self._cost)
            click.echo(f"{counted(self._calls, 'call')} to judges, {cost}")
            click.echo(f"Look at one with: {command_line('show', str(job), self._example)}")


def _result(judged: Judged) -> str:
    if judged.failure is not None:
        return f"not assessed: {judged.failure}"
    found = judged.assessment
    if found is None or judged.is_earlier:
        return "assessed before"
    return (found.unscored or "no score") if found.score is None else f"{found.score:.4g}"


def _remark(judged: Judged) -> str:
    return "not assessed" if judged.failure is not None else "assessed before" if judged.is_earlier else ""
