"""EnvGroup: several environments as one. Each row is rolled out and scored by the environment that it is of.

A row names its environment in `info["env_id"]`: the route through the groups, the outermost first.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, Literal

from seatrial.env.environment import Environment
from seatrial.env.hooks import call_each, teardown
from seatrial.env.rollout import State, read_info
from seatrial.env.rows import Row
from seatrial.env.rubric import RewardFunc, Rubric
from seatrial.errors import UsageError
from seatrial.model.arguments import instance_of

# Routes.

ENV_ID = "env_id"

Route = tuple[str, ...]


def route_of(row: Mapping[str, Any]) -> Route:
    """The route of a row; empty for one that has none. Raises UsageError for what is no route."""
    found = _info(row).get(ENV_ID)
    if found is None:
        return ()
    names = [found] if isinstance(found, str) else found
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise UsageError(f"info['{ENV_ID}'] is {found!r}, expected the name of an environment or a list of names")
    return tuple(names)


def with_route(row: Mapping[str, Any], route: Route) -> Row:
    """The row with a route: a name, or a list of several. Without one it has no such key."""
    info = info_with(row, route)
    return {**row, "info": info} if info or "info" in row else dict(row)


def info_with(row: Mapping[str, Any], route: Route) -> dict[str, Any]:
    """The `info` of a row with a route, as another table."""
    info = {name: value for name, value in _info(row).items() if name != ENV_ID}
    return {**info, ENV_ID: route[0] if len(route) == 1 else list(route)} if route else info


def _info(row: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        info = read_info(row) or {}
    except ValueError as error:
        raise UsageError(f"the info of a row is not JSON: {error}") from error
    if not isinstance(info, Mapping):
        raise UsageError(f"the info of a row is of type {type(info).__name__}, expected a table")
    return info


# The rubric and the environment.


class EnvGroupRubric(Rubric):
    """Scores as the environment does that a rollout is of.

    All rollouts have the metrics of all environments; those of another one are None, and in no mean.
    """

    def __init__(self, env_map: Mapping[str, Environment]) -> None:
        super().__init__()
        self.env_map = env_map

    @property
    def has_group_rewards(self) -> bool:
        return any(env.rubric.has_group_rewards for env in self.env_map.values())

    @property
    def has_advantages(self) -> bool:
        return any(env.rubric.has_advantages for env in self.env_map.values())

    def get_reward_funcs(self) -> list[RewardFunc]:
        return [func for env in self.env_map.values() for func in env.rubric.get_reward_funcs()]

    def get_reward_weights(self) -> list[float]:
        return [weight for env in self.env_map.values() for weight in env.rubric.get_reward_weights()]

    def get_reward_func_names(self) -> list[str]:
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
        await super().cleanup(state)
        env = self._env_of(state)
        with _inside([state]):
            await env.rubric.cleanup(state)

    def _envs_of(self, states: list[State]) -> list[Environment]:
        return list({id(env): env for env in map(self._env_of, states)}.values())

    def _env_of(self, state: State) -> Environment:
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
        for env in self.envs:
            instance_of("one of envs", env, Environment)
        if len(self.env_names) != len(self.envs) or len(set(self.env_names)) != len(self.envs):
            raise UsageError(f"env_names are {self.env_names}, expected {len(self.envs)} different ones")
        self.env_map = dict(zip(self.env_names, self.envs, strict=True))
        self._has_own_threshold = "pass_threshold" in kwargs
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

    @property
    def pass_thresholds(self) -> Mapping[str, float]:
        """From which reward on a rollout of each environment has passed, unless the group was given a mark for all."""
        found: dict[str, float] = {}
        for name, env in () if self._has_own_threshold else self.env_map.items():
            found |= {f"{name}/{inner}": mark for inner, mark in env.pass_thresholds.items()}
            found.setdefault(name, env.pass_threshold)
        return found

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

    @asynccontextmanager
    async def in_use(self) -> AsyncIterator[None]:
        """What the rollouts of all environments share, open for the length of a block."""
        async with AsyncExitStack() as stack:
            for env in self.envs:
                await stack.enter_async_context(env.in_use())
            yield

    @teardown
    async def teardown_envs(self) -> None:
        """End the use of all environments, each even if another fails. Raises the first error then."""
        if errors := await call_each({f"teardown of {name}": env.teardown for name, env in self.env_map.items()}):
            raise errors[0]

    def set_max_seq_len(self, max_seq_len: int | None) -> None:
        super().set_max_seq_len(max_seq_len)
        for env in self.envs:
            env.set_max_seq_len(max_seq_len)

    def set_score_rollouts(self, score_rollouts: bool) -> None:  # noqa: FBT001 - as trainers call it
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
                if purpose == "evaluate" or env.dataset is not None or env.eval_dataset is None:
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


def _routed(row: Row, name: str, env: Environment) -> Row:
    routed = with_route(row, (name, *route_of(row)))
    return {**routed, "task": name} if row["task"] in ("default", env.env_id) else routed
