"""`seatrial check TASKS`: is the verifier of a task any good? Every check there is, and a grade for each task.

The options, what is shown meanwhile, reports, findings, and a single case. Checks themselves are in `seatrial.check`.
"""

import asyncio
import datetime as dt
import sys
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, get_args

import click

from seatrial import __version__
from seatrial.analysis.tables import Table
from seatrial.check.battery import CHECKS, BatteryPlan, TimeToTry
from seatrial.check.cases import Case, CaseVerdict, Check
from seatrial.check.checks.after_runs import AfterRuns, PastRuns, read_runs
from seatrial.check.grade import WEIGHTS, fails, incompleteness
from seatrial.check.reports import CheckBaseline, junit, read_baseline, sarif, write_baseline
from seatrial.check.run import (
    AGENTS,
    CheckFolder,
    CheckRun,
    ChosenTasks,
    Told,
    Verified,
    choose,
    digest_options,
    run_checks,
    try_one,
)
from seatrial.cli.job_options import HARBOR_SPELLINGS, LIMITS, SANDBOX, TASKS, VERIFICATION, VERIFYING
from seatrial.cli.job_spec import job_of_agents
from seatrial.cli.long_run import cancelled_by_signals, relax_gc
from seatrial.cli.options import Command, OptionGroup, grouped, only_options, parse_duration, with_options
from seatrial.cli.program import command_line
from seatrial.cli.running import INTERRUPTED, terminated_like_interrupted
from seatrial.cli.screen import can_draw, paint, show_table
from seatrial.errors import UsageError
from seatrial.jobs.admission import cores
from seatrial.jobs.api import new_job_folder, one_interrupt
from seatrial.model.base import to_json
from seatrial.model.check import REMOVED_CHECKS, CheckFinding, CheckId, CheckOutcome, CheckReport, TaskCheck, Weight
from seatrial.model.job import JobSpec
from seatrial.model.options import Option, declared_options, option_words
from seatrial.model.outcome import format_reward
from seatrial.report.text import counted, format_duration, harmless, harmless_lines
from seatrial.store.files import replace_file, storing

if TYPE_CHECKING:  # slow to import, and only terminals need it
    from rich.status import Status

_T = TypeVar("_T")
_LEAST_CONCURRENT = 4
_TITLES: Mapping[str, str] = {check.CHECK: check.TITLE for check in (*CHECKS, AfterRuns(PastRuns({})))}
_EXAMPLES = """
seatrial check my/tasks
seatrial check my/tasks/beam --only V4,V5 --budget 5m
seatrial check my/tasks --baseline known.json --junit report.xml
"""
_FILES = ("json_file", "junit_file", "sarif_file")
_COLUMNS = ("task", "grade", *WEIGHTS, "runs", "time")
_WEIGHT_COLOURS = {"critical": "red", "major": "red", "minor": "yellow", "note": "cyan"}
_GRADE_COLOURS = {"A": "green", "B": "green", "C": "yellow", "D": "red", "F": "red"}
_LOG_LINES = 30

# The options

_FILE = click.Path(path_type=Path, dir_okay=False, allow_dash=True)
_IDS: tuple[str, ...] = tuple(check for check in get_args(CheckId) if check not in REMOVED_CHECKS)


def _parse_checks(_: click.Context, option: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Words like `V4,V5`. Raises click's BadParameter for what is no check."""
    names = [name.strip().upper() for value in values for name in value.split(",") if name.strip()]
    for name in names:
        if name not in _IDS:
            raise click.BadParameter(f"there is no check {name!r}; write some of {', '.join(_IDS)}", param=option)
    return tuple(dict.fromkeys(names))


_WHAT = OptionGroup(
    "What to check",
    (
        *only_options(TASKS, "include", "exclude", "max_tasks", "unfit").options,
        click.option("--only", multiple=True, callback=_parse_checks, metavar="V4,V5", help="Only these checks."),
        click.option("--skip", multiple=True, callback=_parse_checks, metavar="V9", help="All checks but these."),
        click.option(
            "--repeats",
            type=click.IntRange(1, 1000),
            default=5,
            metavar="N",
            help="How often a verdict is asked for again to see whether it stays the same.  [5]",
        ),
        click.option(
            "--budget",
            "budget_sec",
            callback=parse_duration,
            default="60s",
            metavar="TIME",
            help="How long verifiers may run on variations of one task, all added up: 30s, 5m.  [60s]",
        ),
        click.option(
            "--runs",
            multiple=True,
            type=click.Path(path_type=Path, file_okay=False),
            metavar="JOB",
            help="Also look at what agents got in this job (V12).",
        ),
        click.option("--case", "case_id", metavar="ID", help="Try one case of one task, and show all of its verdict."),
        click.option(
            "-n",
            "--concurrent",
            "concurrent",
            type=click.IntRange(min=1),
            metavar="N",
            help="Verifications at a time.  [the number of cores, at least 4]",
        ),
    ),
)
_HOW = (
    SANDBOX,
    only_options(
        LIMITS, "cpus", "memory_mb", "storage_mb", "agent_timeout_sec", "verifier_timeout_multiplier", "enforcement"
    ),
    only_options(VERIFICATION, *VERIFYING),
)
_OUTPUT = OptionGroup(
    "Output",
    (
        click.option(
            "-o",
            "--output",
            type=click.Path(path_type=Path, file_okay=False),
            metavar="DIR",
            help="Where results go; what is there already is not done again.  [checks/<date and time>]",
        ),
        click.option("--baseline", type=_FILE, metavar="FILE", help="Findings that are known and fail nothing."),
        click.option("--write-baseline", type=_FILE, metavar="FILE", help="Make what is found now the known findings."),
        click.option("--json", "json_file", type=_FILE, metavar="FILE", help="All results as JSON; - prints them."),
        click.option("--junit", "junit_file", type=_FILE, metavar="FILE", help="A JUnit report, for build servers."),
        click.option("--sarif", "sarif_file", type=_FILE, metavar="FILE", help="A SARIF report, for code hosts."),
        click.option(
            "--fail-on",
            type=click.Choice([weight for weight in get_args(Weight) if weight != "note"]),
            default="major",
            help="The least weight of a finding that fails the command.  [major]",
        ),
        click.option("--notes/--no-notes", default=False, help="Also show notes, which are no faults."),
        click.option("-q", "--quiet", is_flag=True, help="Show only what was found."),
    ),
)
_GROUPS = (_WHAT, *_HOW, _OUTPUT)
_PATHS = click.argument("more_paths", metavar="TASKS...", nargs=-1, required=True)


def check_options(command: Command) -> Command:
    return with_options(command, (_PATHS, *_GROUPS))


def words_for_cases(context: click.Context) -> tuple[str, ...]:
    """The words of the command line that say how trials are run, as somebody has to give them again for one case."""
    names = {name for group in (*_HOW, only_options(TASKS, "unfit")) for name in group.names}
    options = {each.param: each.option for each in declared_options(JobSpec) if each.param in names}
    options["repeats"] = Option("--repeats N")
    given = {name: value for name, value in context.params.items() if name in options and _was_given(context, name)}
    return tuple(word for name, value in given.items() for word in option_words(options[name], value))


def _was_given(context: click.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def chosen_checks(only: tuple[str, ...], skip: tuple[str, ...]) -> frozenset[str]:
    """The ids of the checks that are wanted. Raises UsageError when none is."""
    chosen = frozenset(only or _IDS) - frozenset(skip)
    if not chosen:
        raise UsageError("--only and --skip leave no check to be carried out")
    return chosen


# What is shown while tasks are checked


class _CheckProgress:
    """Shows on standard error what happens; `quiet` shows nothing."""

    def __init__(self, tasks: int, *, quiet: bool) -> None:
        self.finished = 0
        self._tasks = tasks
        self._quiet = quiet
        self._runs = 0
        self._status: Status | None = None

    def __enter__(self) -> Self:
        if can_draw(sys.stderr) and not self._quiet:
            from rich.console import Console  # noqa: PLC0415 - only on a terminal
            from rich.status import Status  # noqa: PLC0415 - as above

            self._status = Status(self._standing(), console=Console(stderr=True))
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def __call__(self, told: Told) -> None:
        if isinstance(told, Verified):
            self._runs += told.runs
        elif isinstance(told, TaskCheck):
            self.finished += 1
            self._say(f"[{self.finished:>{len(str(self._tasks))}}/{self._tasks}] {_result_line(told)}")
        else:
            self._say(harmless(told.text))
        if self._status is not None:
            self._status.update(self._standing())

    def _say(self, line: str) -> None:
        if not self._quiet:
            click.echo(line, err=True)

    def _standing(self) -> str:
        return f"{self.finished} of {self._tasks} tasks checked, {self._runs:,} verifications"


# The command


@click.command("check", cls=grouped(*_GROUPS, unlisted=HARBOR_SPELLINGS), epilog=_EXAMPLES)
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
        context.exit(INTERRUPTED)
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
    )
    plan = BatteryPlan(
        checks,
        options["repeats"],
        TimeToTry(options["budget_sec"], concurrent),
        words_for_cases(context),
        digest,
    )
    return CheckRun(chosen.tasks, spec.trial, plan, concurrent)


def _carry_out(run: CheckRun, folder: CheckFolder, *, quiet: bool) -> list[TaskCheck] | None:
    """Check all tasks while it is watched; None when that was interrupted."""
    began = dt.datetime.now(dt.UTC)
    with folder.lock(), _CheckProgress(len(run.tasks), quiet=quiet) as progress:
        checks = _wait(run_checks(run, folder, progress))
    if checks is None:
        done = f"{progress.finished} of {counted(len(run.tasks), 'task')}"
        click.echo(f"Interrupted. Results of {done} are kept in {folder.path}.", err=True)
        click.echo(f"Continue with: {command_line('check', *_words_again(folder.path))}", err=True)
        return None
    click.echo(_totals_line(checks, began), err=True)
    return checks


def _words_again(folder: Path) -> list[str]:
    """The words of this command line, with the folder in which results are."""
    words = sys.argv[sys.argv.index("check") + 1 :] if "check" in sys.argv else []
    named = any(word in ("-o", "--output") or word.startswith(("-o", "--output=")) for word in words)
    return words if named else [*words, "-o", str(folder)]


def _wait(work: Coroutine[Any, Any, _T]) -> _T | None:
    relax_gc()
    try:
        with one_interrupt():
            return asyncio.run(cancelled_by_signals(work))
    except (KeyboardInterrupt, asyncio.CancelledError):
        return None


def _one_case(run: CheckRun, case_id: str, folder: Path) -> int:
    files = folder / "case"
    files.mkdir(parents=True, exist_ok=True)
    with _CheckProgress(1, quiet=True) as progress:
        tried = _wait(try_one(run, case_id, files, progress))
    if tried is None:
        return INTERRUPTED
    case, verdict = tried
    if case is not None:
        _show_case(case)
    _show_verdict(verdict)
    click.echo(f"The verifier's files and those that were edited are in {files}", err=True)
    return 0 if verdict.evaluation is not None else 1


def _show(checks: Sequence[TaskCheck], *, notes: bool) -> None:
    for check in checks:
        _show_findings(check, notes=notes)
    if len(checks) == 1:
        _show_outcomes(checks[0], _TITLES)
    _show_table_of_tasks(checks)


def _conclude(
    checks: Sequence[TaskCheck],
    run: CheckRun,
    chosen: ChosenTasks,
    baseline: CheckBaseline,
    options: Mapping[str, Any],
) -> int:
    # A report that is printed is read by a program, which would stumble over a table before it.
    with redirect_stdout(sys.stderr) if _is_printed(options) else nullcontext():
        _show(checks, notes=options["notes"])
    for task, ids in baseline.gone(checks).items():
        click.echo(f"Note: {harmless(task)}: known, and not found any more: {harmless(', '.join(ids))}", err=True)
    if path := options["write_baseline"]:
        click.echo(f"{path}: {counted(write_baseline(path, checks), 'known finding')}", err=True)
    _write_reports(checks, {each.outline.id: each.name for each in run.tasks}, _TITLES, options)
    failing = [check.task for check in checks if fails(check, options["fail_on"])]
    if failing:
        named = ", ".join(map(harmless, failing[:5])) + (", …" if len(failing) > 5 else "")
        click.echo(f"{counted(len(failing), 'task')} of {len(checks)} below the mark: {named}", err=True)
    if chosen.left_out:
        click.echo(f"{counted(len(chosen.left_out), 'task')} could not be judged at all", err=True)
    return int(bool(failing or chosen.left_out))


def _is_printed(options: Mapping[str, Any]) -> bool:
    return any(str(options[name]) == "-" for name in _FILES)


def _write_reports(
    checks: Sequence[TaskCheck], folders: Mapping[str, str], titles: Mapping[str, str], options: Mapping[str, Any]
) -> None:
    """Write the reports that the options name; `folders` are those of the tasks. Raises StoreError."""
    if path := options["json_file"]:
        _write(path, to_json(CheckReport(seatrial_version=__version__, tasks=tuple(checks))))
    if path := options["junit_file"]:
        _write(path, junit(checks, titles, options["fail_on"]))
    if path := options["sarif_file"]:
        _write(path, sarif(checks, titles, folders, __version__))


def _write(path: Path, content: bytes) -> None:
    if str(path) == "-":
        click.echo(content, nl=False)
        return
    with storing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, content)


def _show_table_of_tasks(checks: Sequence[TaskCheck]) -> None:
    """One row for each task: its grade, how many findings of which weight count, and what they cost."""
    show_table("Verifiers", Table(_COLUMNS, [*map(_row, checks)]))


def _row(check: TaskCheck) -> tuple[str, ...]:
    counts = Counter(finding.weight for finding in check.findings if finding.counts)
    found = (str(counts[weight]) if counts[weight] else "" for weight in WEIGHTS)
    grade = f"{check.grade or '-'}{', incomplete' if check.out_of_time else ''}"
    return check.task, grade, *found, str(check.verifications), format_duration(check.duration_sec)


def _result_line(check: TaskCheck) -> str:
    """One finished task on one line."""
    grade = paint(check.grade, _GRADE_COLOURS[check.grade], bold=True) if check.grade else "-"
    reasons = "; ".join(filter(None, (*check.reasons, incompleteness(check))))
    return f"{grade}  {harmless(check.task)}: {harmless(reasons)}"


def _show_findings(check: TaskCheck, *, notes: bool) -> None:
    """Every finding of a task with what to do about it; those that do not count on one line each."""
    shown = [finding for finding in check.findings if notes or finding.weight != "note"]
    for finding in sorted(shown, key=lambda each: WEIGHTS.index(each.weight)):
        _show_finding(check.task, finding)


def _show_finding(task: str, finding: CheckFinding) -> None:
    weight = paint(finding.weight, _WEIGHT_COLOURS[finding.weight])
    mark = "" if finding.counts else " (accepted)" if finding.accepted else " (known)"
    click.echo(f"{harmless(task)}: {weight}[{harmless(finding.id)}]{mark} {harmless(finding.message)}")
    if not finding.counts:
        return
    if finding.fix:
        click.echo(f"    fix: {harmless(finding.fix)}")
    click.echo(f"    reproduce: {harmless(finding.reproduce)}")
    click.echo(f'    accept: add "{harmless(finding.id)}" to `accept` in [check] of task.toml')


def _show_outcomes(check: TaskCheck, titles: Mapping[str, str]) -> None:
    """How each check of one task went."""
    rows = [
        (outcome.check, titles.get(outcome.check, ""), outcome.status.replace("_", " "), _tried(outcome))
        for outcome in check.outcomes
    ]
    show_table(check.task, Table(("", "check", "result", "runs"), rows))
    for outcome in check.outcomes:
        if outcome.reason:
            click.echo(f"{outcome.check}: {harmless(outcome.reason)}")


def _tried(outcome: CheckOutcome) -> str:
    total = outcome.tried + outcome.left_out
    return f"{outcome.tried} of {total}" if outcome.left_out else str(outcome.tried)


def _totals_line(every: Sequence[TaskCheck], began: dt.datetime) -> str:
    """How much was done since a moment, in how long; results from before it are only counted."""
    checks = [check for check in every if check.finished_at >= began]
    seconds, before = (dt.datetime.now(dt.UTC) - began).total_seconds(), len(every) - len(checks)
    verifications = sum(check.verifications for check in checks)
    states, rebuilt = sum(check.states for check in checks), sum(check.rebuilt for check in checks)
    again = f", {rebuilt:,} rebuilt" if rebuilt else ""
    return (
        f"{counted(verifications, 'verification')} in {format_duration(seconds)} from "
        f"{counted(states, 'end state')}{again}" + (f"; {counted(before, 'task')} done before" if before else "")
    )


def _show_case(case: Case) -> None:
    """What a case is: the end state, what is different in it, and under which conditions it is judged."""
    start = "the untouched environment, in which an agent runs a command" if case.command else f"the state {case.state}"
    click.echo(f"case: {start}")
    for edit in case.edits:
        what = "removed" if edit.content is None else f"with another content, {counted(len(edit.content), 'byte')}"
        click.echo(f"    {harmless(edit.path)}: {what}")
    for line in harmless_lines(case.command) if case.command else []:
        click.echo(f"    $ {line}")
    conditions = case.conditions
    named = [f"{name}={value}" for name, value in conditions.env.items()]
    named += ["no network"] * (conditions.network == "none") + ["one processor"] * conditions.one_cpu
    for line in named:
        click.echo(f"    {harmless(line)}")


def _show_verdict(verdict: CaseVerdict) -> None:
    """Everything about one verdict: reward, validity, breakdown, tags, and the end of what was printed."""
    evaluation = verdict.evaluation
    if evaluation is None:
        click.echo(f"{verdict.case}: no verdict: {harmless(verdict.failure or 'the verifier could not be asked')}")
        return
    click.echo(f"{verdict.case}: reward {format_reward(evaluation.reward)} ({verdict.outcome})")
    how = "out of time" if verdict.timed_out else f"exit status {verdict.exit_code}"
    click.echo(f"verifier: {how} after {format_duration(verdict.duration_sec)}")
    validity = evaluation.validity
    flags = ("output_parseable", "schema_valid", "verifier_completed")
    click.echo("validity: " + ", ".join(f"{flag} {getattr(validity, flag)}".lower() for flag in flags))
    for line in validity.errors:
        click.echo(f"    {harmless(line)}")
    for name, value in (evaluation.breakdown or {}).items():
        click.echo(f"breakdown: {harmless(name)}: {harmless(str(value))}")
    for tag in evaluation.error_taxonomy or ():
        click.echo(f"tag: {harmless(tag.category)}: {harmless(tag.description or '')}")
    if lines := harmless_lines(verdict.log.rstrip("\n"))[-_LOG_LINES:] if verdict.log.strip() else []:
        click.echo("the verifier printed:")
        for line in lines:
            click.echo(f"    {line}")
