"""Values of strangers' JSON, taken for what they should be or left unknown."""

import datetime as dt
import math
from typing import Any

_MOST_LETTERS = 4_000


def number_of(value: Any) -> float | None:
    """A finite number; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def count_of(value: Any) -> int | None:
    """A count, also where it was written as 3.0; None for anything else."""
    number = number_of(value)
    if number is None or number < 0 or number != int(number) or number >= 2**63:
        return None
    return int(number)


def text_of(value: Any) -> str | None:
    """A text that is not empty, cut where it is very long; None for anything else."""
    if not isinstance(value, str) or not value:
        return None
    return value if len(value) <= _MOST_LETTERS else f"{value[:_MOST_LETTERS]}…"


def table_of(value: Any) -> dict[str, Any]:
    """An object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def list_of(value: Any) -> list[Any]:
    """A list; an empty one for anything else."""
    return value if isinstance(value, list) else []


def moment_of(value: Any) -> dt.datetime | None:
    """A moment, from seconds since 1970 or ISO text with its offset; None where it is not sure which one is meant."""
    if isinstance(value, str):
        try:
            when = dt.datetime.fromisoformat(value)
            return when.astimezone(dt.UTC) if when.tzinfo else None
        except (ValueError, OverflowError):
            return None
    seconds = number_of(value)
    if not seconds or seconds < 0:  # a clock that was never started says 0
        return None
    try:
        return dt.datetime.fromtimestamp(seconds, dt.UTC)
    except (ValueError, OverflowError, OSError):
        return None
