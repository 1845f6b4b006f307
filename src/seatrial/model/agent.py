"""What running an agent gave back. A non-zero exit or a time-out is data here, never an exception."""

from typing import Literal

from seatrial.model.base import NonNegative, StrictModel


class AgentResult(StrictModel):
    """How the agent's command ended."""

    status: Literal["exited", "timed_out", "killed"]
    exit_code: int | None = None
    duration_sec: NonNegative
    stdout_path: str | None = None
    stderr_path: str | None = None
