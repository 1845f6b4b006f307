"""Stopping a job whose machine is broken, before it turns every trial that is left into a failure."""

from seatrial.errors import HostExhaustedError, SandboxError
from seatrial.model.record import TrialRecord

_MANY_IN_A_ROW = 10


class Breaker:
    """Counts trials in a row for which no sandbox or no room could be had. A single other one clears the count.

    `go_on` is the command that goes on afterwards.
    """

    def __init__(self, go_on: str = "`seatrial resume --retry-failed`") -> None:
        self._in_a_row = 0
        self._go_on = go_on

    def note(self, record: TrialRecord, slots: int) -> None:
        """Take notice of a finished trial, of those that run `slots` at once.

        Raises SandboxError or HostExhaustedError when so many were in a row that it was not one bad moment for all.
        """
        failure = record.failure
        exhausted = failure is not None and failure.cause == HostExhaustedError.__name__
        if failure is None or not (exhausted or (failure.phase == "setup" and failure.cause == SandboxError.__name__)):
            self._in_a_row = 0
            return
        self._in_a_row += 1
        if self._in_a_row < max(_MANY_IN_A_ROW, 2 * slots):
            return
        if exhausted:
            raise HostExhaustedError(
                f"{self._in_a_row} trials in a row had no room on this machine, last: {failure.message}; make room, "
                f"then go on with {self._go_on}"
            )
        raise SandboxError(
            f"no sandbox could be started for {self._in_a_row} trials in a row, last: {failure.message}; see "
            f"`seatrial doctor`, then go on with {self._go_on}"
        )
