"""What runs below a process, by the kernel's list of processes: for machines where no control group counts it."""

import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")
_PARENT, _THREADS, _RESIDENT = 1, 17, 21  # fields of /proc/<pid>/stat, counted from behind the name


def threads_below(pid: int) -> int:
    """How many threads the descendants of a process have together."""
    return sum(fields[_THREADS] for fields in _below(pid))


def memory_below(pid: int) -> int:
    """How many bytes of memory the descendants of a process have together; what they share counts for each."""
    return sum(fields[_RESIDENT] for fields in _below(pid)) * _PAGE


def _below(pid: int) -> Iterator[list[int]]:
    pids = [name for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - names only
    found = {each: fields for each in pids if (fields := _fields(each))}
    children = defaultdict(list)
    for each, fields in found.items():
        children[str(fields[_PARENT])].append(each)
    waiting = list(children[str(pid)])
    while waiting:
        each = waiting.pop()
        yield found[each]
        waiting += children[each]


def _fields(pid: str) -> list[int] | None:
    with suppress(OSError, ValueError):
        words = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return [0, *map(int, words[1:])]
    return None
