"""Closing what a forked child has inherited.

A child that enters a sandbox with the spawner's descriptors still open offers them to the sandbox: any path the agent
turns into a link to /proc/self/fd/N would lead through them, out of the sandbox.
"""

import os
from collections.abc import Iterable

_LAST = 2**20


def close_all_but(keep: Iterable[int]) -> None:
    """Close every descriptor but the three standard ones and those in `keep`."""
    first = 3
    for descriptor in sorted(set(keep)):
        if descriptor >= first:
            os.closerange(first, descriptor)
            first = descriptor + 1
    os.closerange(first, _LAST)
