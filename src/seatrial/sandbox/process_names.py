"""How processes are named in records, and which of them are alive: they choose their names, and some choose none."""

from collections.abc import Sequence

NO_NAME = "(no name)"
RESTLESS = "(restless)"
"""For a process that moves on to a new number faster than it can be looked at."""

_DEAD = ("Z", "X")
_SESSION, _THREADS = 3, 17


def shown_name(name: str) -> str:
    """A process's name on one line, with what cannot be printed written out; `(no name)` for one that shows nothing."""
    shown = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in name.strip())
    return shown or NO_NAME


def split_stat(text: str) -> tuple[str, Sequence[str]]:
    """The name in a `/proc/PID/stat`, whatever is in it, and the fields behind it; empty ones for no text."""
    name, _, rest = text.partition("(")[2].rpartition(")")
    return name, rest.split()


def is_alive(fields: Sequence[str]) -> bool:
    """Whether a process runs, by the fields behind its name.

    It looks dead when its first thread has ended, though others of its threads may go on.
    """
    return bool(fields) and (fields[0] not in _DEAD or int(fields[_THREADS]) > 1)


def session_of(fields: Sequence[str]) -> int:
    """The session of a process, by the fields behind its name."""
    return int(fields[_SESSION])
