"""Rollout: what the environments themselves have to know of a rollout under way, behind one key of its state.

The rest of a state is its author's and a trainer's: without this key it can be sent wherever its values can.
"""

from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from seatrial.env.messages import Messages
from seatrial.env.trajectory import Recorder

if TYPE_CHECKING:  # all dialects of models and everything a trial needs, which nobody needs before the first rollout
    from seatrial.env.agent_state import AgentState
    from seatrial.env.trial_workplace import TrialWorkplace
    from seatrial.model.record import TrialRecord

ROLLOUT = "_rollout"
"""The one private key of a state; in a row, it says where a rollout that is to be stored leaves its files."""


@dataclass(frozen=True, slots=True)
class RolloutPlace:
    """Where a rollout that is to be stored leaves its files, and what it is called there."""

    trial_id: str
    folder: Path
    attempt: int
    job: str
    job_id: str | None = None


@dataclass(eq=False, slots=True)
class Rollout:
    """One rollout under way. It holds `resources` until they are given back.

    `unanswered` is what the environment said last, to which the model had no answer any more. One that is a trial has
    a `record` in the end.
    """

    place: RolloutPlace | None = None
    recorder: Recorder = field(default_factory=Recorder)
    resources: AsyncExitStack = field(default_factory=AsyncExitStack)
    unanswered: Messages = field(default_factory=list)
    agent: "AgentState | None" = None
    trial: "TrialWorkplace | None" = None
    record: "TrialRecord | None" = None
