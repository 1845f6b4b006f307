"""What becomes of a trial that ran while this machine was out of something: it is void, unless that tells nothing new.

A full reward stands: no shortage has ever made wrong work right. So does every verdict on a trial that used the thing
up itself: it is judged as it is, and where it kept its own verifier from judging, that is a zero.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from seatrial.errors import HostExhaustedError, InfraError
from seatrial.model.evaluation import EvaluationResult, ValidityCheck
from seatrial.model.record import VerifierRun
from seatrial.sandbox.host.attendance import Attendance
from seatrial.sandbox.host.disks import FULL
from seatrial.scoring.findings import Finding, with_finding
from seatrial.trial.log import RoundLog, TrialLog

_TOOK_ALL = "host_exhausted_by_agent"
MAY_BE_SHORTAGE = (OSError, InfraError, MemoryError, RuntimeError)  # the last is Python's for no more threads
_FULL_REWARD = 1.0


def ensure_unspoiled(host: Attendance) -> None:
    """Raise HostExhaustedError when this machine was short of something meanwhile, and not by the trial's own doing."""
    if host.excuse:
        raise HostExhaustedError(host.excuse)


def standing(host: Attendance, evaluation: EvaluationResult) -> EvaluationResult:
    """The evaluation if it stands, with what the trial used up. Raises HostExhaustedError if it does not."""
    if evaluation.reward < _FULL_REWARD:
        ensure_unspoiled(host)
    if host.own_doing is None:
        return evaluation
    return with_finding(evaluation, _took_all(host.own_doing))


def _took_all(message: str) -> Finding:
    return Finding(_TOOK_ALL, f"{message}; that was its own doing, so what it left was judged as it is", "hint")


@asynccontextmanager
async def explaining(host: Attendance, log: TrialLog) -> AsyncIterator[None]:
    """`explain` what fails in this block."""
    try:
        yield
    except MAY_BE_SHORTAGE as error:
        await explain(host, log, error)


async def explain(host: Attendance, log: TrialLog, error: Exception) -> None:
    """Raise what went wrong: a HostExhaustedError that names what was short, where that was the reason.

    Where the agent took it, and nothing is left to judge it by, a zero is noted instead and nothing is raised.
    """
    await host.look()
    if host.own_doing and log.rounds:
        _unjudgeable(log.rounds[-1], host.own_doing)
    elif isinstance(error, HostExhaustedError):
        raise error
    elif host.excuse:
        raise HostExhaustedError(f"{host.excuse}; what failed for it: {error}") from error
    elif isinstance(error, OSError) and error.errno in FULL:
        raise HostExhaustedError(f"no room for the files of the trial: {error}") from error
    else:
        raise error


def _unjudgeable(notes: RoundLog, own_doing: str) -> None:
    """Note a zero: the agent used up what its own verifier would have needed, which is one way to silence it."""
    validity = ValidityCheck(output_parseable=True, schema_valid=True, verifier_completed=False)
    notes.verifier_run = VerifierRun(duration_sec=0.0, isolation="kill", baseline="judged")
    notes.evaluation = with_finding(
        EvaluationResult(reward=0.0, validity=validity),
        Finding(_TOOK_ALL, f"{own_doing}; that left no room to judge its work, so 0.0 counts"),
    )
