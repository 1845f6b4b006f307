"""RubricGroup: several rubrics as one. Their rewards are added up, and each keeps its parser, objects and methods."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from seatrial.env.hooks import call_each
from seatrial.env.monitors import MonitorRubric
from seatrial.env.parsers import Parser
from seatrial.env.rollout import State
from seatrial.env.rubric import GroupProvider, Provider, RewardFunc, Rubric, as_reward, new_name, not_failed, set_error
from seatrial.errors import SeatrialError, UsageError


class RubricGroup(Rubric):
    """The rubrics in `rubrics`, as one. Functions that are added to the group are added to the first of them.

    Metrics of the same name are told apart by a number. Raises UsageError for no rubrics.
    """

    def __init__(self, rubrics: Sequence[Rubric], parser: Parser | None = None) -> None:
        if not rubrics:
            raise UsageError("a RubricGroup needs at least one rubric")
        super().__init__(parser=parser or rubrics[0].parser)
        self.rubrics = list(rubrics)

    def add_reward_func(self, func: RewardFunc, weight: float = 1.0) -> None:
        self.rubrics[0].add_reward_func(func, weight)

    def add_class_object(self, name: str, obj: Any) -> None:
        for rubric in self.rubrics:
            rubric.add_class_object(name, obj)

    def add_score_object_provider(self, provider: Provider) -> None:
        for rubric in self.rubrics:
            rubric.add_score_object_provider(provider)

    def add_group_score_object_provider(self, provider: GroupProvider) -> None:
        for rubric in self.rubrics:
            rubric.add_group_score_object_provider(provider)

    def members(self) -> list[Rubric]:
        return list(self.rubrics)

    @property
    def has_group_rewards(self) -> bool:
        return any(rubric.has_group_rewards for rubric in self.rubrics)

    @property
    def has_advantages(self) -> bool:
        return any(rubric.has_advantages for rubric in self.rubrics)

    def get_reward_funcs(self) -> list[RewardFunc]:
        return [func for rubric in self.rubrics for func in rubric.get_reward_funcs()]

    def get_reward_weights(self) -> list[float]:
        return [weight for rubric in self.rubrics for weight in rubric.get_reward_weights()]

    async def score_rollout(self, state: State) -> None:
        """Set the sum of the rewards and all metrics. Raises what the first rubric that failed raised."""
        total, failed = _Total(state), None
        for rubric in self.rubrics:
            total.begin()
            try:
                await rubric.score_rollout(state)
            except SeatrialError as error:
                failed = failed or error
            total.add(rubric)
        total.write()
        if failed is not None:
            state["reward"] = total.before
            raise failed

    async def measure_group(self, states: list[State]) -> None:
        """Score the rollouts of one row by each rubric, without their advantages."""
        totals = [_Total(state) for state in not_failed(states)]
        for total in totals:
            total.state["advantage"] = None
        for rubric in self.rubrics:
            measured = [total for total in totals if total.state.get("error") is None]
            for total in measured:
                total.begin()
            await _way_to_measure(rubric)([total.state for total in measured])
            for total in measured:
                total.add(rubric)
        for total in totals:
            total.write()
            if total.state.get("error") is not None:
                set_error(total.state, total.state["error"])

    async def advantages(self, states: list[State]) -> list[float]:
        """What the first rubric that says so says, else how far each is above the mean.

        Where a rubric scores groups in a way of its own, beside metrics only, the advantages it gave stay.
        """
        for rubric in self.rubrics:
            if rubric.has_advantages:
                return await rubric.advantages(states)
        judges = [rubric for rubric in self.rubrics if not isinstance(rubric, MonitorRubric)]
        given = [state["advantage"] for state in states if state.get("advantage") is not None]
        if len(judges) == 1 and len(given) == len(states):
            return [as_reward(advantage) for advantage in given]
        return await super().advantages(states)

    async def cleanup(self, state: State) -> None:
        await super().cleanup(state)
        for rubric in self.rubrics:
            await rubric.cleanup(state)

    async def teardown(self) -> None:
        """End the use of all rubrics, each even if another fails. Raises the first HookError then."""
        handlers = {f"teardown of rubric {number}": each.teardown for number, each in enumerate(self.rubrics)}
        if errors := await call_each({"teardown": super().teardown, **handlers}):
            raise errors[0]


class _Total:
    """What several rubrics say of a rollout. Each finds it as the environment left it."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.before = state.get("reward")
        self.reward: float | None = None
        self.metrics: dict[str, float | None] = {}
        self.errors: dict[str, str] = {}

    def begin(self) -> None:
        self.state["reward"], self.state["metrics"], self.state["reward_errors"] = self.before, None, {}

    def add(self, rubric: Rubric) -> None:
        reward = self.state.get("reward")
        left_alone = reward is self.before and not any(rubric.get_reward_weights())
        if reward is not None and not left_alone:
            self.reward = (self.reward or 0.0) + reward
        errors = self.state.get("reward_errors") or {}
        for name, value in (self.state.get("metrics") or {}).items():
            known_as = new_name(name, self.metrics)
            self.metrics[known_as] = value
            if name in errors:
                self.errors[known_as] = errors[name]

    def write(self) -> None:
        self.state["reward"] = self.before if self.reward is None else self.reward
        self.state["metrics"], self.state["reward_errors"] = self.metrics, self.errors


def _way_to_measure(rubric: Rubric) -> Callable[[list[State]], Coroutine[Any, Any, None]]:
    """Without advantages, which only the sum has, unless the rubric's author scores groups in a way of their own."""
    usual = type(rubric).score_group is Rubric.score_group
    return rubric.measure_group if usual else rubric.score_group
