"""RewardSum: what the reward functions say of one rollout, added up."""

import logging
from collections.abc import Mapping
from typing import Any

from seatrial.env.rubric_calls import RewardCall, new_name
from seatrial.env.state import State
from seatrial.errors import SeatrialError

_log = logging.getLogger(__name__)


class RewardSum:
    """The reward and the metrics of a rollout so far, and the first failure of a function that has a weight."""

    __slots__ = ("failed", "metrics", "reward", "state")

    def __init__(self, state: State) -> None:
        self.state = state
        self.reward = 0.0
        self.metrics: dict[str, float | None] = {}
        self.failed: SeatrialError | None = None

    async def ask(self, call: RewardCall, weight: float, offered: Mapping[str, Any]) -> None:
        """Take in what a function says of this rollout alone."""
        try:
            value = await call.value(offered)
        except SeatrialError as error:
            self.fail(call, weight, error)
        else:
            self.take(call, weight, value)

    def take(self, call: RewardCall, weight: float, value: Any) -> None:
        """Take in what a function said, if that is a number."""
        try:
            number = call.number(value)
        except SeatrialError as error:
            self.fail(call, weight, error)
        else:
            self.metrics[new_name(call.name, self.metrics)] = number
            self.reward += weight * number

    def fail(self, call: RewardCall, weight: float, error: SeatrialError) -> None:
        """Take in that a function failed: without a weight, only its own metric is missing."""
        _log.warning("rollout of %s: %s", self.state.get("task"), error, exc_info=error.__cause__)
        name = new_name(call.name, self.metrics)
        self.metrics[name] = None
        self.state.setdefault("reward_errors", {})[name] = str(error)
        if weight:
            self.failed = self.failed or error

    def skip(self, call: RewardCall) -> None:
        """Take in that a function was not asked, since there is no reward any more."""
        self.metrics[new_name(call.name, self.metrics)] = None

    def settle(self) -> None:
        """Write `metrics` and `reward` into the state. Raises the first failure that leaves no reward."""
        self.state["metrics"] = self.metrics
        if self.failed is not None:
            raise self.failed
        if self.metrics:
            self.state["reward"] = self.reward
