"""The file descriptors of this process: how many there may be, how many are open, and what to say when they run out.

Those who serve strangers, gateways and proxies, share them out in advance: one sandbox that opens as many connections
as it can must not leave the process without descriptors for all others.
"""

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_FOR_A_TRIAL = 16  # measured: 5 in our process and 8 in the spawner; more with a model and a separate verifier
_FOR_EVERYTHING_ELSE = 32  # the program itself, its store, its images, its log
_LEAST = 8  # connections that everybody may have
_EXHAUSTED = (errno.EMFILE, errno.ENFILE)

_parties = 0
_started_with: tuple[int, int] | None = None


def raise_limit() -> tuple[int, int]:
    """Let this process open as many files as it may; returns the limits it was started with, for its children.

    The usual 1,024 is for programs that call select(2); nothing here does.
    """
    global _started_with  # noqa: PLW0603 - descriptors are a matter of the process
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _started_with is None:
        _started_with = soft, hard
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return _started_with


def give_back_limit(pid: int) -> None:
    """Give a program that this process has started the limits that this process was started with."""
    if _started_with is not None:
        with suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, _started_with)


def limit() -> int | None:
    """How many files this process may have open now; None when there is no limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def in_use() -> int:
    """How many files this process has open. To count them takes one more; without one, all are in use."""
    try:
        with os.scandir("/proc/self/fd") as entries:
            return sum(1 for _ in entries) - 1  # the folder itself
    except OSError:
        return limit() or 0


def affordable_trials(wanted: int) -> int:
    """How many of so many trials at once there are descriptors for, with the limit raised; at least one."""
    raise_limit()
    most = limit()
    return wanted if most is None else max(1, min(wanted, (most - _FOR_EVERYTHING_ELSE) // _FOR_A_TRIAL))


REMEDY = (
    "raise the limit (`ulimit -n 65536` as root, `nofile` in /etc/security/limits.conf, `LimitNOFILE=` of a service)"
)


def shortage(who: str = "this process") -> str:
    """What to tell when descriptors have run out: the limit, how many are open, and what helps."""
    return f"{who} has {in_use()} of at most {limit()} files open; {REMEDY}, or run fewer trials at once (-n)"


def is_shortage(error: BaseException) -> bool:
    """Whether an error means that there were no descriptors left, in this process or on the whole machine."""
    return isinstance(error, OSError) and error.errno in _EXHAUSTED


def raise_if_short(error: BaseException) -> None:
    """Raise an error that means that there were no descriptors left: what was looked for may well be there."""
    if is_shortage(error):
        raise error


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
    soft = limit()
    if soft is None:
        return most
    return min(most, max(_LEAST, soft // 2 // max(1, _parties) // each))
