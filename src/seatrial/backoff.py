"""How long to wait before a server is asked again: decisions only, no clock and no network."""

import datetime as dt
import email.utils
import math
from collections.abc import Mapping

_FIRST_WAIT_SEC = 0.5
_MOST_DOUBLINGS = 10


def wait_before(attempt: int, asked_for: float | None, longest: float, chance: float) -> float:
    """How long to wait before the attempt after `attempt` (from 0). `chance` is a random number from 0 to 1.

    What the server asked for is never undercut, up to the longest wait; chance spreads those who wait together.
    """
    if asked_for:  # zero would be no wait at all, and all attempts would be used up in a moment
        return min(asked_for, longest) * (1 + 0.1 * chance)
    backoff = _FIRST_WAIT_SEC * 2.0 ** min(attempt, _MOST_DOUBLINGS)
    return min(backoff, longest) * (0.5 + 0.5 * chance)


def retry_after(headers: Mapping[str, str], now: dt.datetime | None = None) -> float | None:
    """The seconds a server asks to wait, from any of the three ways of saying so; None if it does not."""
    if (milliseconds := read_seconds(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    if value is None or (seconds := read_seconds(value)) is not None:
        return seconds if value is not None else None
    try:
        when = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=dt.UTC)
    return max((when - (now or dt.datetime.now(dt.UTC))).total_seconds(), 0.0)


def read_seconds(text: str | None) -> float | None:
    """A number that is finite and not negative, None for anything else."""
    try:
        number = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
