"""Whether a process of ours that owes us an answer has stopped for good, decided by one look at it per second.

A slow process is not a stopped one. So looks are counted, not seconds: while the machine sleeps, or is too busy to let
us look, nothing is counted. Two things are taken for the end of a process:

- it is stopped (SIGSTOP, a debugger) at every look for as long as `STOPPED_LOOKS`;
- it says nothing, not even when asked for a sign of life, and has used no processor time for as long as `SILENT_LOOKS`,
  without waiting for a processor. The kernel calls a task hung after the same two minutes.
"""

from collections.abc import Sequence
from typing import NamedTuple

from seatrial.sandbox.process_names import split_stat

LOOK_SEC = 1.0
STOPPED_LOOKS = 5
ASK_AFTER_LOOKS = 10
SILENT_LOOKS = 120

_STOPPED = ("T", "t")
_USER_TIME, _SYSTEM_TIME = 11, 12


class Look(NamedTuple):
    """What one look shows: the letter of a process's state, empty for none, and the processor time it has used."""

    state: str
    cpu: int

    @property
    def stopped(self) -> bool:
        return self.state in _STOPPED


def look_at(pid: int) -> Look:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields: Sequence[str] = split_stat(file.read().decode(errors="replace"))[1]
    except OSError:
        return Look("", 0)
    return Look(fields[0], int(fields[_USER_TIME]) + int(fields[_SYSTEM_TIME]))


class Watch:
    """Counts looks at one process. `heard` is to be called whenever it says something."""

    def __init__(self) -> None:
        self._stopped = self._silent = 0
        self._cpu = -1

    def heard(self) -> None:
        self._silent = 0

    def note(self, look: Look) -> str | None:
        """Take one more look at a process that owes us something; why it is given up, None as long as it is not."""
        self._stopped = self._stopped + 1 if look.stopped else 0
        busy = look.state == "R" or look.cpu != self._cpu
        self._silent = 0 if busy else self._silent + 1
        self._cpu = look.cpu
        if self._stopped >= STOPPED_LOOKS:
            return f"was stopped (SIGSTOP or a debugger) and had not gone on after {STOPPED_LOOKS} seconds"
        if self._silent >= SILENT_LOOKS:
            return f"neither answered nor did anything for {SILENT_LOOKS} seconds"
        return None

    @property
    def wants_a_sign(self) -> bool:
        """Whether it has been silent for so long that it should be asked for a sign of life."""
        return self._silent >= ASK_AFTER_LOOKS
