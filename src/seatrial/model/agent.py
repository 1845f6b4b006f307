"""What running an agent gave back. A non-zero exit or a time-out is data here, never an exception."""

from typing import Literal

from seatrial.model.base import NonNegative, StrictModel


class AgentResult(StrictModel):
    """How the agent's command ended.

    `cpu_sec` is what its processes got of the processors, `cpu_wait_sec` for how long they had to wait while
    processes of others used them; None where that is not known.
    """

    status: Literal["exited", "timed_out", "killed"]
    exit_code: int | None = None
    duration_sec: NonNegative
    stdout_path: str | None = None
    stderr_path: str | None = None
    cpu_sec: NonNegative | None = None
    cpu_wait_sec: NonNegative | None = None

    @property
    def busy_share(self) -> float:
        """In which share of its time it was kept from running."""
        return share_of(self.cpu_wait_sec, self.duration_sec)


def share_of(wait_sec: float | None, duration_sec: float) -> float:
    """Which share of a time was spent on waiting for a processor; none where that is not known."""
    return min(wait_sec / duration_sec, 1.0) if wait_sec and duration_sec else 0.0
