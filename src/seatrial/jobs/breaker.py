"""Stopping a job whose machine is broken, before it turns every trial that is left into a failure."""

from seatrial.errors import SandboxError
from seatrial.model.record import TrialRecord


class Breaker:
    """Counts trials in a row for which no sandbox could be had. A single one that starts clears the count."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._in_a_row = 0

    def note(self, record: TrialRecord) -> None:
        """Take notice of a finished trial. Raises SandboxError when there were too many in a row."""
        failure = record.failure
        if failure is None or failure.phase != "setup" or failure.cause != "SandboxError":
            self._in_a_row = 0
            return
        self._in_a_row += 1
        if self._in_a_row >= self._limit:
            raise SandboxError(
                f"no sandbox could be started for {self._in_a_row} trials in a row, last: {failure.message}; see "
                "`seatrial doctor`, then go on with `seatrial resume --retry-failed`"
            )
