"""`seatrial check TASKS`: is the verifier of a task any good? Every check there is, and a grade for each task."""

import asyncio
import datetime as dt
import sys
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Any, TypeVar

import click

from seatrial import __version__
from seatrial.check.baseline_file import CheckBaseline, read_baseline, write_baseline
from seatrial.check.battery import CHECKS, BatteryPlan
from seatrial.check.cases import Check
from seatrial.check.checks.after_runs import AfterRuns
from seatrial.check.folder import CheckFolder, digest_options
from seatrial.check.grade import fails
from seatrial.check.past_runs import PastRuns, read_runs
from seatrial.check.prepare import AGENTS, ChosenTasks, choose
from seatrial.check.run import CheckRun, run_checks, try_one
from seatrial.check.trying import TimeToTry
from seatrial.cli.check_files import is_printed, write_reports
from seatrial.cli.check_options import CHECK_GROUPS, check_options, chosen_checks, words_for_cases
from seatrial.cli.check_progress import CheckProgress
from seatrial.cli.check_view import (
    show_case,
    show_findings,
    show_outcomes,
    show_table_of_tasks,
    show_verdict,
    totals_line,
)
from seatrial.cli.harbor_options import HARBOR_SPELLINGS
from seatrial.cli.job_asked import job_of_agents
from seatrial.cli.job_running import terminated_like_interrupted
from seatrial.cli.long_run import cancelled_by_signals, settle_in
from seatrial.cli.option_groups import grouped
from seatrial.cli.program import command_line
from seatrial.errors import UsageError
from seatrial.jobs.admission import cores
from seatrial.jobs.api import new_job_folder
from seatrial.jobs.interrupts import one_interrupt
from seatrial.model.check import TaskCheck
from seatrial.model.job import JobSpec
from seatrial.report.text import counted, harmless

T = TypeVar("T")
_LEAST_CONCURRENT = 4
_INTERRUPTED = 130
TITLES: Mapping[str, str] = {check.CHECK: check.TITLE for check in (*CHECKS, AfterRuns(PastRuns({})))}
_EXAMPLES = """
seatrial check my/tasks
seatrial check my/tasks/beam --only V4,V5 --budget 5m
seatrial check my/tasks --baseline known.json --junit report.xml
"""


@click.command("check", cls=grouped(*CHECK_GROUPS, unlisted=HARBOR_SPELLINGS), epilog=_EXAMPLES)
@check_options
@click.pass_context
def command(context: click.Context, /, **options: Any) -> None:
    """Find out whether the verifiers of tasks can be trusted.

    The task's own solution, nothing at all, and variations of accepted answers are judged, and each task gets a grade
    from A to F with its reasons. Exits with 1 when something is found that counts, or a task could not be judged, and
    with 130 when interrupted; the same command with the same -o then goes on.
    """
    spec = job_of_agents(options, "check", AGENTS)
    baseline = read_baseline(options["baseline"]) if options["baseline"] else CheckBaseline()
    with terminated_like_interrupted():
        chosen = choose(spec, options["more_paths"])
        for notice in chosen.notices:
            click.echo(f"Note: {harmless(notice)}", err=True)
        run = _planned(context, spec, chosen, options)
        folder = options["output"] or new_job_folder(Path("checks"))
        if options["case_id"]:
            context.exit(_one_case(run, options["case_id"], folder))
        checks = _carry_out(run, CheckFolder(folder), quiet=options["quiet"])
    if checks is None:
        context.exit(_INTERRUPTED)
    context.exit(_conclude([baseline.marked(check) for check in checks], run, chosen, baseline, options))


def _planned(context: click.Context, spec: JobSpec, chosen: ChosenTasks, options: Mapping[str, Any]) -> CheckRun:
    wanted = chosen_checks(options["only"], options["skip"])
    past = read_runs(options["runs"])
    every: tuple[Check, ...] = (*CHECKS, AfterRuns(past)) if past.jobs else CHECKS
    checks = tuple(check for check in every if check.CHECK in wanted)
    if not checks:
        raise UsageError("V12 looks at what agents got in real runs; name the job of one with --runs")
    if options["case_id"]:
        checks = CHECKS
        if len(chosen.tasks) != 1:
            raise UsageError(f"--case is about one task, and {len(chosen.tasks)} were named; name the folder of one")
    concurrent = options["concurrent"] or max(_LEAST_CONCURRENT, cores())
    digest = digest_options(
        seatrial=__version__,
        checks=[check.CHECK for check in checks],
        repeats=options["repeats"],
        budget=options["budget_sec"],
        trial=spec.trial.model_dump(mode="json"),
        runs=repr(past),
        twins=str(options["twins"].absolute()) if options["twins"] else None,
    )
    plan = BatteryPlan(
        checks,
        options["repeats"],
        TimeToTry(options["budget_sec"], concurrent),
        words_for_cases(context),
        options["twins"],
        digest,
    )
    return CheckRun(chosen.tasks, spec.trial, plan, concurrent)


def _carry_out(run: CheckRun, folder: CheckFolder, *, quiet: bool) -> list[TaskCheck] | None:
    """Check all tasks while it is watched; None when that was interrupted."""
    began = dt.datetime.now(dt.UTC)
    with folder.lock(), CheckProgress(len(run.tasks), quiet=quiet) as progress:
        checks = _wait(run_checks(run, folder, progress))
    if checks is None:
        done = f"{progress.finished} of {counted(len(run.tasks), 'task')}"
        click.echo(f"Interrupted. Results of {done} are kept in {folder.path}.", err=True)
        click.echo(f"Continue with: {command_line('check', *_words_again(folder.path))}", err=True)
        return None
    click.echo(totals_line(checks, began), err=True)
    return checks


def _words_again(folder: Path) -> list[str]:
    """The words of this command line, with the folder in which results are."""
    words = sys.argv[sys.argv.index("check") + 1 :] if "check" in sys.argv else []
    named = any(word in ("-o", "--output") or word.startswith(("-o", "--output=")) for word in words)
    return words if named else [*words, "-o", str(folder)]


def _wait(work: Coroutine[Any, Any, T]) -> T | None:
    settle_in()
    try:
        with one_interrupt():
            return asyncio.run(cancelled_by_signals(work))
    except (KeyboardInterrupt, asyncio.CancelledError):
        return None


def _one_case(run: CheckRun, case_id: str, folder: Path) -> int:
    files = folder / "case"
    files.mkdir(parents=True, exist_ok=True)
    with CheckProgress(1, quiet=True) as progress:
        tried = _wait(try_one(run, case_id, files, progress))
    if tried is None:
        return _INTERRUPTED
    case, verdict = tried
    if case is not None:
        show_case(case)
    show_verdict(verdict)
    click.echo(f"The verifier's files and those that were edited are in {files}", err=True)
    return 0 if verdict.evaluation is not None else 1


def _show(checks: Sequence[TaskCheck], *, notes: bool) -> None:
    for check in checks:
        show_findings(check, notes=notes)
    if len(checks) == 1:
        show_outcomes(checks[0], TITLES)
    show_table_of_tasks(checks)


def _conclude(
    checks: Sequence[TaskCheck],
    run: CheckRun,
    chosen: ChosenTasks,
    baseline: CheckBaseline,
    options: Mapping[str, Any],
) -> int:
    # A report that is printed is read by a program, which would stumble over a table before it.
    with redirect_stdout(sys.stderr) if is_printed(options) else nullcontext():
        _show(checks, notes=options["notes"])
    for task, ids in baseline.gone(checks).items():
        click.echo(f"Note: {harmless(task)}: known, and not found any more: {harmless(', '.join(ids))}", err=True)
    if path := options["write_baseline"]:
        click.echo(f"{path}: {counted(write_baseline(path, checks), 'known finding')}", err=True)
    write_reports(checks, {each.outline.id: each.name for each in run.tasks}, TITLES, options)
    failing = [check.task for check in checks if fails(check, options["fail_on"])]
    if failing:
        named = ", ".join(map(harmless, failing[:5])) + (", …" if len(failing) > 5 else "")
        click.echo(f"{counted(len(failing), 'task')} of {len(checks)} below the mark: {named}", err=True)
    if chosen.left_out:
        click.echo(f"{counted(len(chosen.left_out), 'task')} could not be judged at all", err=True)
    return int(bool(failing or chosen.left_out))
