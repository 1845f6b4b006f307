"""Closing what a forked child has inherited.

A child that enters a sandbox with the spawner's descriptors still open offers them to the sandbox: any path the agent
turns into a link to /proc/self/fd/N would lead through them, out of the sandbox.
"""

from collections.abc import Iterable

from seatrial.sandbox.syscalls import close_range

_LAST = 2**32 - 1


def close_all_but(keep: Iterable[int]) -> None:
    """Close every descriptor but the three standard ones and those in `keep`."""
    first = 3
    for descriptor in sorted(set(keep)):
        if descriptor >= first:
            if descriptor > first:
                close_range(first, descriptor - 1)
            first = descriptor + 1
    close_range(first, _LAST)
