"""Whether a trial that the machinery failed is started again, and when."""

from seatrial.errors import HostBusyError, HostExhaustedError, NodeLostError, NodeUnreachableError
from seatrial.model.record import Failure
from seatrial.sandbox.host.watch import Company

_FIRST_WAIT_SEC = 1.0
_LONGEST_WAIT_SEC = 30.0
_MOST_LOST = 10
_BY_NEIGHBOURS = (HostExhaustedError.__name__, HostBusyError.__name__)
_LOST = (NodeLostError.__name__, NodeUnreachableError.__name__)


def should_retry(failure: Failure, tries: int, retries: int) -> bool:
    """Whether to start again after `tries` tries, of which `retries` may be repetitions. Cancelled is cancelled.

    What was lost with its node says nothing about a trial, so that has more repetitions; not without end, for a trial
    may be what ends nodes.
    """
    if failure.cause in _LOST:
        retries = max(retries, _MOST_LOST)
    return failure.kind == "infrastructure" and failure.retryable and tries <= retries


def company_for(failure: Failure, tries: int, retries: int) -> Company:
    """Beside whom a trial is tried again: the last time alone where this machine was out of something, or busy.

    If it does so again, there is no neighbour whose doing that could have been.
    """
    return "none" if failure.cause in _BY_NEIGHBOURS and tries >= retries else "others"


def backoff_sec(tries: int) -> float:
    """How long to wait after `tries` tries: not at all at first, most failures pass; then longer each time."""
    return 0.0 if tries <= 1 else min(_FIRST_WAIT_SEC * 2.0 ** min(tries - 2, 10), _LONGEST_WAIT_SEC)
