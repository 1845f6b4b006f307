"""When a registry is asked again, and how long to wait before."""

import datetime as dt
import email.utils
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from seatrial.errors import ImageFetchError

T = TypeVar("T")
Wait = Callable[[float], Awaitable[None]]

_FIRST_WAIT_SEC = 0.5
_LONGEST_WAIT_SEC = 60.0
_TRIES = 6
_TRIES_UNREACHED = 3  # who is not there at all will hardly be in a moment


class PassingError(ImageFetchError):
    """Something that another try may not meet again."""

    def __init__(self, message: str, *, retry_after: float | None = None, tries: int = _TRIES) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.tries = tries


class UnreachedError(PassingError):
    """Nobody answered at all."""

    def __init__(self, message: str) -> None:
        super().__init__(message, tries=_TRIES_UNREACHED)


async def with_retries(work: Callable[[], Awaitable[T]], wait: Wait) -> T:
    """What some work gives, tried again while its errors may pass. Raises ImageFetchError that tells how often."""
    tried = 0
    while True:
        try:
            return await work()
        except PassingError as error:
            tried += 1
            if tried >= error.tries:
                raise ImageFetchError(f"{error}; tried {tried} times") from error
            await wait(pause(tried, error))


def pause(tried: int, error: PassingError) -> float:
    """How long to wait after the `tried`th failure: what was asked for, else ever longer, spread by chance."""
    if error.retry_after:
        return min(error.retry_after, _LONGEST_WAIT_SEC)
    return float(min(_FIRST_WAIT_SEC * 2 ** (tried - 1), _LONGEST_WAIT_SEC)) * random.uniform(0.5, 1)  # noqa: S311 - it spreads waits, nothing secret


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds an answer asks to wait, None if it does not."""
    value = headers.get("Retry-After", "")
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        when = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    when = when.replace(tzinfo=when.tzinfo or dt.UTC)
    return max((when - dt.datetime.now(dt.UTC)).total_seconds(), 0.0)
