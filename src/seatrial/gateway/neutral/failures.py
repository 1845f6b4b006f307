"""Errors that a provider tells in the middle of a stream, read from any dialect and written in any."""

from typing import Any

from seatrial.gateway.dialects import DIALECTS
from seatrial.gateway.dialects.fields import told_error
from seatrial.gateway.neutral.types import Delta, Failed
from seatrial.gateway.sse import SseEvent
from seatrial.model.trace import Dialect

# Inside a stream there is no status any more. Those who retry look at it, so it is taken from the error's type.
_STATUSES = {"overloaded_error": 529, "rate_limit_error": 429, "rate_limit_exceeded": 429, "RESOURCE_EXHAUSTED": 429}


def read_failure(parsed: Any) -> list[Delta]:
    """The failure that an event tells, if it tells one."""
    told = told_error(parsed)
    return [Failed(told.type, told.message)] if told else []


def write_failure(dialect: Dialect, failed: Failed) -> list[SseEvent]:
    """A failure in the words of this dialect."""
    return [DIALECTS[dialect].error_event(_STATUSES.get(failed.type, 500), "provider", failed.message)]
