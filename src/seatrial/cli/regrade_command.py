"""`seatrial regrade JOB`: judge the trials of a job again from their kept end states, without any agent."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from seatrial.analysis.loaded import Filter, filter_job, load_job
from seatrial.analysis.summary import alike, summarise_job
from seatrial.cli.analysis_options import where_option
from seatrial.cli.job_options import DISPLAY, GATES, TRUST_JOB, VERIFICATION
from seatrial.cli.job_view import find_trial
from seatrial.cli.long_run import cancelled_by_signals, relax_gc
from seatrial.cli.options import OptionGroup, grouped
from seatrial.cli.progress import Beginning, Display, Ended, Ending, choose_display
from seatrial.cli.running import INTERRUPTED, Gates, missed_gates, terminated_like_interrupted
from seatrial.errors import SeatrialError, UsageError
from seatrial.jobs.regrade import PassedOver, run_regrade
from seatrial.jobs.regrade_plan import PreparedRegrade, RegradeOptions, prepare_regrade
from seatrial.report.text import counted, harmless

_AT_LEAST_1 = click.IntRange(min=1)
_NAMED = 5
_GO_ON = "The same command goes on with it."

_WHAT = OptionGroup(
    "What to judge, and by which tests",
    (
        click.option(
            "--tests",
            type=click.Path(path_type=Path),
            metavar="DIR",
            help="Other tests: the tests/ of one task, or a folder of tasks.  [those of the tasks now]",
        ),
        click.option(
            *("-p", "--path", "tasks"),
            multiple=True,
            type=click.Path(path_type=Path),
            metavar="TASKS",
            help="Where the tasks are now.  [where they were]",
        ),
        click.option("--only-changed", is_flag=True, help="Only trials that were judged by other tests before."),
        click.option("--repeat", "repeats", type=_AT_LEAST_1, metavar="N", help="Judge each N times.  [the job's]"),
        click.option("--trial", "trials", multiple=True, metavar="TRIAL", help="Only this trial; as often as needed."),
        where_option("Judge"),
        click.option(*("-n", "--concurrent"), type=_AT_LEAST_1, metavar="N", help="Trials at a time."),
        TRUST_JOB,
    ),
)
_HOW = OptionGroup(
    VERIFICATION.title,
    tuple(each for each in VERIFICATION.options if "verify_repeats" not in OptionGroup("", (each,)).names),
)
_EXAMPLES = """
seatrial regrade jobs/first
seatrial regrade jobs/first --only-changed
seatrial regrade jobs/first --tests other/tests --where task=easy-*
"""


@click.command("regrade", cls=grouped(_WHAT, _HOW), epilog=_EXAMPLES)
@click.argument("job", type=click.Path(path_type=Path))
@_WHAT
@_HOW
@GATES
@DISPLAY
@click.pass_context
def command(context: click.Context, /, job: Path, **options: Any) -> None:
    """Judge the trials of the job in folder JOB again, as their agents left them, by the tests of now or by others.

    Each gets a new revision; the ones before stay, and the newest counts. A regrade that was interrupted is gone on
    with by the same command. Exit codes as for `seatrial run`; 1 also when trials could not be judged again.
    """
    asked = RegradeOptions(
        tests=options["tests"],
        tasks=options["tasks"],
        only_changed=options["only_changed"],
        repeats=options["repeats"],
        trials=_chosen(job, options["trials"], options["where"]),
        changes={name: options[name] for name in sorted(_HOW.names) if options[name] not in (None, {})},
        concurrent=options["concurrent"],
    )
    gates = Gates(options["fail_under"], options["max_failed"], options["max_invalid"])
    with terminated_like_interrupted():
        prepared = prepare_regrade(job, asked, trust_job=options["trust_job"])
        display = choose_display(as_json=options["as_json"], quiet=options["quiet"])
        code = _carry_out(prepared, display, gates)
    context.exit(code)


def _chosen(folder: Path, trials: Sequence[str], where: Filter) -> frozenset[str] | None:
    if not trials and not where:
        return None
    job = load_job(folder)
    named = {find_trial(job.store, wanted).trial_id for wanted in trials}
    ids = frozenset(trial.trial_id for trial in filter_job(job, where).trials)
    return ids & named if named else ids


def _carry_out(job: PreparedRegrade, display: Display, gates: Gates) -> int:
    """Carry it out to its end, and return the exit code. Raises what it cannot go on with, after saying how to."""
    store = job.store
    for notice in job.notices:
        click.echo(f"Note: {harmless(notice)}", err=True)
    if not job.trials and not job.earlier:
        click.echo("No trial was judged by other tests than there are now, so none is judged again.", err=True)
    ended: Ended = "complete"
    reasons: list[str] = []
    try:
        try:
            planned = len(job.trials) + len(job.earlier)
            earlier = [entry._replace(cost_usd=None) for entry in job.earlier]  # no agent is paid for anything here
            display.begin(Beginning(store.file.spec.name, store.path, planned, earlier, store.file.spec.model))
            relax_gc()
            reasons = _reasons(asyncio.run(cancelled_by_signals(run_regrade(job, display.observe))).passed_over)
        finally:
            display.close()
    except (KeyboardInterrupt, asyncio.CancelledError):
        ended = "interrupted"
    except SeatrialError as error:
        usage = isinstance(error, UsageError)
        display.conclude(
            Ending(store.path, "not started" if usage else "failed", None, [str(error)], 2 if usage else 1, _GO_ON)
        )
        raise
    summary = summarise_job(store.entries(), store.file)
    reasons += missed_gates(summary, gates)
    code = INTERRUPTED if ended == "interrupted" else int(bool(reasons))
    display.conclude(Ending(store.path, ended, summary, reasons, code, _GO_ON))
    return code


def _reasons(passed_over: Sequence[PassedOver]) -> list[str]:
    """Which trials keep the verdict that they have, and why, one line for each reason; of many only some."""
    if not passed_over:
        return []
    groups: dict[str, list[PassedOver]] = {}
    for each in passed_over:
        groups.setdefault(alike(each.reason.replace(each.trial_id, "")), []).append(each)
    lines = [harmless(f"  {_named(group)}: {group[0].reason}") for group in groups.values()]
    more = [f"  … and {counted(len(lines) - _NAMED, 'other reason')}"] if len(lines) > _NAMED else []
    trials = counted(len(passed_over), "trial was", "trials were")
    return [f"{trials} not judged again, and the verdicts stay:", *lines[:_NAMED], *more]


def _named(group: Sequence[PassedOver]) -> str:
    more = f" and {len(group) - 1:,} more" if len(group) > 1 else ""
    return f"{group[0].trial_id}{more}"
