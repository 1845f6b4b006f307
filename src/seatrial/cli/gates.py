"""Whether a finished job is good enough: the exit code and the reasons for it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from seatrial.analysis.filters import Filter
from seatrial.analysis.loaded import LoadedJob, filter_job, load_job
from seatrial.analysis.summary import JobSummary
from seatrial.errors import JobError, StoreError
from seatrial.report.text import harmless

_ROUNDING = 1e-9  # three times 0.7 may have a mean a hair below 0.7

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Gates:
    """What a job must reach: a mean reward of every agent, and how large a share of trials may have no verdict.

    Those that could not be run are `failed`; those whose verifier could not judge are `invalid`.
    """

    fail_under: float | None = None
    max_failed: float = 0.0
    max_invalid: float = 0.0


def readable_job(folder: Path, wanted: Filter) -> LoadedJob:
    """A job whose gate is asked for. Raises JobError where it cannot be read, which must not exit as a verdict does."""
    try:
        return filter_job(load_job(folder), wanted)
    except StoreError as error:
        raise JobError(str(error)) from error


def gate_options(command: Command) -> Command:
    """Give a command the options of the gates."""
    share = click.FloatRange(0.0, 1.0)
    failed = click.option(
        "--max-failed", type=share, default=0.0, metavar="SHARE", help="Exit with 1 if more trials fail to run.  [0]"
    )
    invalid = click.option(
        "--max-invalid",
        type=share,
        default=0.0,
        metavar="SHARE",
        help="Exit with 1 if the verifier cannot judge more trials.  [0]",
    )
    under = click.option(
        "--fail-under", type=share, metavar="REWARD", help="Exit with 1 if an agent's mean reward is lower."
    )
    return under(failed(invalid(command)))


def missed_gates(summary: JobSummary, gates: Gates) -> list[str]:
    """Why a job is not good enough, one line per reason; nothing when it is."""
    failures, invalid = _failures(summary, gates.max_failed), _invalid(summary, gates.max_invalid)
    return [*_low_means(summary, gates.fail_under), *failures, *invalid]


def _low_means(summary: JobSummary, fail_under: float | None) -> Iterator[str]:
    if fail_under is None:
        return
    for name, tally in summary.agents.items():
        if tally.mean is None:
            yield f"{harmless(name)}: no scored trials, --fail-under wants a mean reward of {fail_under:g}"
        elif tally.mean < fail_under - _ROUNDING:
            yield f"{harmless(name)}: mean reward {tally.mean:.4g} is below --fail-under {fail_under:g}"


def _failures(summary: JobSummary, max_failed: float) -> Iterator[str]:
    failed, finished = summary.total.infrastructure, summary.total.finished
    if failed and failed / finished > max_failed:
        yield (
            f"{failed} of {finished} trials could not be run, more than the share --max-failed {max_failed:g}; "
            "`seatrial resume` with --retry-failed runs them again"
        )


def _invalid(summary: JobSummary, max_invalid: float) -> Iterator[str]:
    invalid, judged = summary.total.invalid, summary.total.scored + summary.total.invalid
    if invalid and invalid / judged > max_invalid:
        yield (
            f"the verifier could not judge {invalid} of {judged} trials, more than the share --max-invalid "
            f"{max_invalid:g}; `seatrial show` lists them as verifier_error, and a trial shows why"
        )
