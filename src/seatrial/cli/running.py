"""Runs a prepared job while it is watched, and turns how it ended into an exit code, by the gates it must pass."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NamedTuple

import click

from seatrial.analysis.summary import JobSummary, planned_trials, summarise_job
from seatrial.cli.long_run import cancelled_by_signals, ending_signals, relax_gc
from seatrial.cli.progress import Beginning, Display, Ended, Ending
from seatrial.errors import SeatrialError, UsageError
from seatrial.jobs.api import PreparedJob, run_prepared
from seatrial.model.outcome import format_reward
from seatrial.report.text import harmless

INTERRUPTED = 130


class Gates(NamedTuple):
    """What a job must reach."""

    fail_under: float | None = None
    """The least mean reward of every agent."""
    max_failed: float = 0.0
    """The largest share of trials that could not be run."""
    max_invalid: float = 0.0
    """The largest share of trials whose verifier could not judge."""


def carry_out(job: PreparedJob, display: Display, gates: Gates) -> int:
    """Run a job to its end, show it, and return the exit code: 0, 1 for less than was asked for, 130 interrupted.

    Raises what the job cannot go on with, such as a StoreError, after saying how to go on.
    """
    for notice in job.notices:
        click.echo(f"Note: {harmless(notice)}", err=True)
    ended: Ended
    reason: str | None = None
    try:
        try:
            display.begin(_beginning(job))
            relax_gc()
            outcome = asyncio.run(cancelled_by_signals(run_prepared(job, display.observe)))
            ended, reason = outcome.stopped, outcome.reason
        finally:
            display.close()
    except (KeyboardInterrupt, asyncio.CancelledError):
        ended = "interrupted"
    except SeatrialError as error:
        code = 2 if isinstance(error, UsageError) else 1
        ended = "refused" if not job.store.exists else "not started" if isinstance(error, UsageError) else "failed"
        display.conclude(Ending(job.store.path, ended, None, [str(error)], code))
        raise
    end = _ending(job, ended, reason, gates)
    display.conclude(end)
    return end.exit_code


@contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt in this block, as Ctrl-C does."""
    before = {number: signal.signal(number, _interrupt) for number in ending_signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _beginning(job: PreparedJob) -> Beginning:
    file = job.store.file
    planned = sum(planned_trials(file).values())
    return Beginning(file.spec.name, job.store.path, planned, job.earlier, file.spec.model)


def _ending(job: PreparedJob, ended: Ended, reason: str | None, gates: Gates) -> Ending:
    summary = summarise_job(job.store.entries(), job.store.file)
    reasons = [*filter(None, (reason,)), *missed_gates(summary, gates)]
    code = INTERRUPTED if ended == "interrupted" else int(bool(reasons) or ended != "complete")
    return Ending(job.store.path, ended, summary, reasons, code)


ROUNDING = 1e-9  # three times 0.7 may have a mean a hair below 0.7


def missed_gates(summary: JobSummary, gates: Gates) -> list[str]:
    """Why a job is not good enough, one line per reason; nothing when it is."""
    failures, invalid = _failures(summary, gates.max_failed), _invalid(summary, gates.max_invalid)
    return [*_low_means(summary, gates.fail_under), *failures, *invalid]


def _low_means(summary: JobSummary, fail_under: float | None) -> Iterator[str]:
    if fail_under is None:
        return
    for name, figures in summary.agents.items():
        if figures.mean is None:
            yield f"{harmless(name)}: no scored trials, --fail-under wants a mean reward of {fail_under:g}"
        elif figures.mean < fail_under - ROUNDING:
            mean = format_reward(figures.mean)
            yield f"{harmless(name)}: mean reward {mean} is below --fail-under {fail_under:g}"


def _failures(summary: JobSummary, max_failed: float) -> Iterator[str]:
    agents = summary.agents.values()
    failed, finished = sum(each.infrastructure for each in agents), sum(each.finished for each in agents)
    if failed and failed / finished > max_failed:
        yield (
            f"{failed} of {finished} trials could not be run, more than the share --max-failed {max_failed:g}; "
            "`seatrial resume` with --retry-failed runs them again"
        )


def _invalid(summary: JobSummary, max_invalid: float) -> Iterator[str]:
    agents = summary.agents.values()
    invalid = sum(each.invalid for each in agents)
    judged = invalid + sum(each.scored for each in agents)
    if invalid and invalid / judged > max_invalid:
        yield (
            f"the verifier could not judge {invalid} of {judged} trials, more than the share --max-invalid "
            f"{max_invalid:g}; `seatrial show` lists them as verifier_error, and a trial shows why"
        )
