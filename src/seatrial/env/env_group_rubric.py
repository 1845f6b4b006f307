"""EnvGroupRubric: each rollout of a group of environments scored by the rubric of its own environment."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from seatrial.env.env_route import info_with, route_of
from seatrial.env.rubric import Rubric
from seatrial.env.rubric_calls import RewardFunc
from seatrial.env.state import State
from seatrial.errors import UsageError

if TYPE_CHECKING:
    from seatrial.env.environment import Environment


class EnvGroupRubric(Rubric):
    """Scores as the environment does that a rollout is of.

    All rollouts have the metrics of all environments; those of another one are None, and in no mean.
    """

    def __init__(self, env_map: Mapping[str, "Environment"]) -> None:
        super().__init__()
        self.env_map = env_map

    @property
    def has_group_rewards(self) -> bool:
        """Whether any environment compares rollouts."""
        return any(env.rubric.has_group_rewards for env in self.env_map.values())

    @property
    def has_advantages(self) -> bool:
        """Whether any environment says what the advantages are."""
        return any(env.rubric.has_advantages for env in self.env_map.values())

    def get_reward_funcs(self) -> list[RewardFunc]:
        """The functions of all environments."""
        return [func for env in self.env_map.values() for func in env.rubric.get_reward_funcs()]

    def get_reward_weights(self) -> list[float]:
        """The weight of each function."""
        return [weight for env in self.env_map.values() for weight in env.rubric.get_reward_weights()]

    def get_reward_func_names(self) -> list[str]:
        """The names of the functions of all environments, each once."""
        names = [name for env in self.env_map.values() for name in env.rubric.get_reward_func_names()]
        return list(dict.fromkeys(names))

    async def score_rollout(self, state: State) -> None:
        """Set `reward` and `metrics` of a state. Raises as the rubric of its environment does."""
        env = self._env_of(state)
        try:
            if env.score_rollouts:
                with _inside([state]):
                    await env.rubric.score_rollout(state)
        finally:
            self._fill(state)

    async def score_group(self, states: list[State]) -> None:
        """Score the rollouts of one row, together where their environment does."""
        for env in self._envs_of(states):
            scored = [state for state in states if self._env_of(state) is env]
            if env.score_rollouts:
                with _inside(scored):
                    await env.rubric.score_group(scored)
        for state in states:
            self._fill(state)

    async def advantages(self, states: list[State]) -> list[float]:
        """What the rubric of their environment says of rollouts; of several environments, how far above the mean."""
        first, *others = self._envs_of(states)
        if others:
            return await super().advantages(states)
        with _inside(states):
            return await first.rubric.advantages(states)

    async def cleanup(self, state: State) -> None:
        """Run the handlers of the environment's rubric."""
        await super().cleanup(state)
        env = self._env_of(state)
        with _inside([state]):
            await env.rubric.cleanup(state)

    def _envs_of(self, states: list[State]) -> list["Environment"]:
        return list({id(env): env for env in map(self._env_of, states)}.values())

    def _env_of(self, state: State) -> "Environment":
        route = route_of(state)
        if not route or route[0] not in self.env_map:
            raise UsageError(
                f"info['env_id'] of a rollout is {list(route)}, expected one of {', '.join(self.env_map)} first"
            )
        return self.env_map[route[0]]

    def _fill(self, state: State) -> None:
        if state.get("error") is None or state.get("metrics"):
            state["metrics"] = {**dict.fromkeys(self.get_reward_func_names()), **(state.get("metrics") or {})}


@contextmanager
def _inside(states: list[State]) -> Iterator[None]:
    """Let states be those of the environment within the group, whose rows know of no group, or of one less."""
    routes = [route_of(state) for state in states]
    for state, route in zip(states, routes, strict=True):
        state["info"] = info_with(state, route[1:])
    try:
        yield
    finally:
        for state, route in zip(states, routes, strict=True):
            state["info"] = info_with(state, route)
