"""When a provider is asked again, and how long to wait before: decisions only, no clock and no network."""

import datetime as dt
import email.utils
import math
from collections.abc import Mapping
from typing import Any

import orjson

RETRIED_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})
"""Answers that another attempt may turn into a good one. Any other 4xx is the agent's own mistake."""

HOPELESS_STATUSES = frozenset({401, 402})
"""About our key or our account, which the agent has no part in and another attempt does not mend."""

_FIRST_WAIT_SEC = 0.5
_MOST_DOUBLINGS = 10
_HOPELESS_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached"})


def is_hopeless(status: int, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether a failed answer says that asking again cannot help."""
    if status in HOPELESS_STATUSES or headers.get("x-should-retry") == "false":
        return True
    error = _error_table(body)
    return error.get("code") in _HOPELESS_CODES or error.get("type") in _HOPELESS_CODES


def wait_before(attempt: int, asked_for: float | None, longest: float, chance: float) -> float:
    """How long to wait before the attempt after `attempt` (from 0). `chance` is a random number from 0 to 1.

    What the provider asked for is never undercut, up to the longest wait; chance spreads those who wait together.
    """
    if asked_for:  # zero would be no wait at all, and all attempts would be used up in a moment
        return min(asked_for, longest) * (1 + 0.1 * chance)
    backoff = _FIRST_WAIT_SEC * 2.0 ** min(attempt, _MOST_DOUBLINGS)
    return min(backoff, longest) * (0.5 + 0.5 * chance)


def retry_after(headers: Mapping[str, str], now: dt.datetime) -> float | None:
    """The seconds a provider asks to wait, from any of the three ways of saying so; None if it does not."""
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    if value is None or (seconds := _number(value)) is not None:
        return seconds if value is not None else None
    try:
        when = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=dt.UTC)
    return max((when - now).total_seconds(), 0.0)


def told_delay(body: bytes) -> float | None:
    """The seconds that Google asks to wait, which it says among the details of an error (`"retryDelay": "34.5s"`)."""
    details = _error_table(body).get("details")
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str) and delay.endswith("s"):
            return _number(delay.removesuffix("s"))
    return None


def error_message(body: bytes, longest: int = 500) -> str:
    """What the body of a failed answer says, in one bounded line."""
    message = _error_table(body).get("message")
    text = message if isinstance(message, str) else body.decode(errors="replace")
    text = " ".join(text.split())
    return text if len(text) <= longest else text[:longest] + "…"


def _error_table(body: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    error = value.get("error") if isinstance(value, dict) else None
    return error if isinstance(error, dict) else {"message": error}


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
