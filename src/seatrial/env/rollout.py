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
    from seatrial.trial.spec import TrialSpec

ROLLOUT = "_rollout"
"""The one private key of a state; in a row, it gives a rollout that is a trial its place."""


@dataclass(frozen=True, slots=True)
class RolloutPlace:
    """What a rollout is a trial of, and where it leaves its files."""

    spec: "TrialSpec"
    folder: Path


@dataclass(eq=False, slots=True)
class Rollout:
    """One rollout under way. It holds `resources` until they are given back; if they are `kept`, after its scoring.

    `unanswered` is what the environment said last, to which the model had no answer any more. One that is a trial has
    a `record` in the end.
    """

    place: RolloutPlace | None = None
    recorder: Recorder = field(default_factory=Recorder)
    resources: AsyncExitStack = field(default_factory=AsyncExitStack)
    kept: bool = False
    unanswered: Messages = field(default_factory=list)
    agent: "AgentState | None" = None
    trial: "TrialWorkplace | None" = None
    record: "TrialRecord | None" = None
