"""Descriptors of this process, shared out in advance among those who serve strangers: gateways and proxies.

One sandbox that opens as many connections as it can must not leave the process without descriptors for all others.
"""

import resource
from collections.abc import Iterator
from contextlib import contextmanager

_LEAST = 8  # connections that everybody may have

_parties = 0


@contextmanager
def taking_part() -> Iterator[None]:
    """Be one of those among whom descriptors are shared out, for the length of a block."""
    global _parties  # noqa: PLW0603 - descriptors are a matter of the process
    _parties += 1
    try:
        yield
    finally:
        _parties -= 1


def share(most: int, each: int) -> int:
    """How many connections of `each` so many descriptors one party may have: `most`, or as many as its share allows.

    Half of the process's descriptors are shared out; the rest is for everything else.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return most
    return min(most, max(_LEAST, soft // 2 // max(1, _parties) // each))
