"""EnvGroup: several environments as one. Each row is rolled out and scored by the environment that it is of."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Literal

from seatrial.env.decorators import teardown
from seatrial.env.env_group_rubric import EnvGroupRubric
from seatrial.env.env_route import Route, info_with, route_of, with_route
from seatrial.env.environment import Environment
from seatrial.env.rows import Row
from seatrial.env.rubric import Rubric
from seatrial.env.state import State
from seatrial.errors import SeatrialError, UsageError


class EnvGroup(Environment):
    """A mixture of environments of any class, other groups too.

    Its rows are those of all of them, one after the other, with an `example_id` of their own. `info["env_id"]` says
    whose they are; rows that have no task of their own have that name as their `task`. A `rubric` is added to those of
    the environments. `map_kwargs` has no effect. Rollouts of a group are never trials: those of a HarborEnv are judged
    as ever, but neither tried again nor stored as a job.

    Raises UsageError for no environments, or names that are not one for each.
    """

    def __init__(
        self,
        envs: Sequence[Environment],
        env_names: Sequence[str] | None = None,
        map_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self.envs = list(envs)
        self.env_names = list(env_names or [f"env_{number}" for number in range(len(self.envs))])
        if not self.envs:
            raise UsageError("an EnvGroup needs at least one environment")
        if len(self.env_names) != len(self.envs) or len(set(self.env_names)) != len(self.envs):
            raise UsageError(f"env_names are {self.env_names}, expected {len(self.envs)} different ones")
        self.env_map = dict(zip(self.env_names, self.envs, strict=True))
        given: Rubric | None = kwargs.pop("rubric", None)
        own = EnvGroupRubric(self.env_map)
        super().__init__(self._rows_to_train, self._rows_to_evaluate, rubric=own, map_kwargs=map_kwargs, **kwargs)
        if given is not None:
            self.add_rubric(given)
        if self.max_seq_len is not None:
            self.set_max_seq_len(self.max_seq_len)

    async def rollout(
        self,
        input: Mapping[str, Any],  # noqa: A002 - the name that authors know
        client: Any,
        model: str,
        sampling_args: Mapping[str, Any] | None = None,
    ) -> State:
        """A rollout of the environment that a row is of. Raises UsageError for a row of none."""
        route = self._route_of(input)
        env = self.env_map[route[0]]
        sampling = {**env.sampling_args, **(sampling_args or {})}
        state = await env.rollout(with_route(input, route[1:]), client, model, sampling)
        state["info"] = info_with(state, route)
        return state

    def get_env_for_name(self, name: str) -> Environment:
        """The environment of a name. Raises UsageError."""
        if name not in self.env_map:
            raise UsageError(f"there is no environment {name!r} in the group; there are {', '.join(self.env_names)}")
        return self.env_map[name]

    def get_env_for_task(self, task: str) -> Environment:
        """The environment that has a task, or that is called so. Raises UsageError."""
        for rows in () if task in self.env_map else (self._rows_to_train(), self._rows_to_evaluate()):
            for row in rows:
                if row["task"] == task:
                    return self.env_map[route_of(row)[0]]
        return self.get_env_for_name(task)

    def in_use(self) -> AbstractAsyncContextManager[object]:
        """What the rollouts of all environments share, open for the length of a block."""
        return self._all_in_use()

    @asynccontextmanager
    async def _all_in_use(self) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for env in self.envs:
                await stack.enter_async_context(env.in_use())
            yield

    @teardown
    async def teardown_envs(self) -> None:
        """End the use of all environments, each even if another fails. Raises the first error then."""
        errors = []
        for env in self.envs:
            try:
                await env.teardown()
            except SeatrialError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def set_max_seq_len(self, max_seq_len: int | None) -> None:
        """Set how many tokens the conversation of a rollout may have, here and in all environments."""
        super().set_max_seq_len(max_seq_len)
        for env in self.envs:
            env.set_max_seq_len(max_seq_len)

    def set_score_rollouts(self, score_rollouts: bool) -> None:  # noqa: FBT001 - as trainers call it
        """Set whether rollouts are scored, here and in all environments."""
        super().set_score_rollouts(score_rollouts)
        for env in self.envs:
            env.set_score_rollouts(score_rollouts)

    def _rows_to_train(self) -> list[Row]:
        return self._rows_of("train")

    def _rows_to_evaluate(self) -> list[Row]:
        return self._rows_of("evaluate")

    def _rows_of(self, purpose: Literal["train", "evaluate"]) -> list[Row]:
        """The rows of all environments; to evaluate on, those to train on where an environment has no others."""
        found: list[Row] = []
        for name, env in self.env_map.items():
            try:
                rows = env.get_dataset() if purpose == "train" else env.get_eval_dataset()
            except UsageError:
                if purpose == "evaluate" or not _has_only_evaluation(env):
                    raise
                continue
            found += [_routed(row, name, env) for row in rows]
        return [{**row, "example_id": number} for number, row in enumerate(found)]

    def _route_of(self, row: Mapping[str, Any]) -> Route:
        route = route_of(row)
        if not route and row.get("task") in self.env_map:
            route = (str(row["task"]),)
        if not route and len(self.envs) == 1:
            route = (self.env_names[0],)
        if not route:
            raise UsageError(
                f"the row has no info['env_id']: use one of get_dataset(), or name one of {', '.join(self.env_names)}"
            )
        self.get_env_for_name(route[0])
        return route


def _has_only_evaluation(env: Environment) -> bool:
    return env.dataset is None and env.eval_dataset is not None


def _routed(row: Row, name: str, env: Environment) -> Row:
    """A row of an environment as one of the group."""
    routed = with_route(row, (name, *route_of(row)))
    return {**routed, "task": name} if row["task"] in ("default", env.env_id) else routed
