"""Carrying out a prepared job while it is watched, and turning how it ended into an exit code."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import click

from seatrial.analysis.summary import planned_trials, summarise_job
from seatrial.cli.gates import Gates, missed_gates
from seatrial.cli.long_run import cancelled_by_signals, ending_signals, settle_in
from seatrial.cli.progress import Beginning, Display, Ended, Ending
from seatrial.errors import SeatrialError, UsageError
from seatrial.jobs.api import PreparedJob, run_prepared
from seatrial.report.text import harmless

INTERRUPTED = 130


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
            settle_in()
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
