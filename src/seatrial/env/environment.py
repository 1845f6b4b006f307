"""Environment: a dataset, a rubric, and every way to ask for rollouts of a model on them.

Its arguments are those that environments of verifiers take; docs/environments.md says which have no effect here. What
a rollout is, subclasses say (`turns`, `cli_agent`, `harbor`); `running` runs many of them.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import replace
from types import CoroutineType, TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar

from seatrial.concurrency import complete, finish
from seatrial.env.arguments import EvaluationOptions, constructor_arguments, takes_options
from seatrial.env.client import Client, Policy, chat_request, open_client, open_model, opened_client
from seatrial.env.hooks import blaming, call_each, marked_methods, maybe_await, stop
from seatrial.env.messages import Messages, Response, as_messages, as_response
from seatrial.env.monitors import MonitorRubric
from seatrial.env.results import Output, Results
from seatrial.env.rollout import State, as_step, new_state, rollout_of, tools_of
from seatrial.env.rows import DatasetSource, Row, RowDataset, RowFormat, choose, format_row, load_rows, require_rows
from seatrial.env.rubric import RewardFunc, Rubric, func_name
from seatrial.env.running import RunPlan, StreamPlan, run_rollouts, stream_outputs
from seatrial.env.tool_tables import as_tool_tables
from seatrial.errors import UsageError
from seatrial.model.arguments import as_table, refuse_unknown, whole_number
from seatrial.model.outcome import PASS_THRESHOLD

if TYPE_CHECKING:
    from seatrial.model.job import JobSpec
    from seatrial.trial.spec import TrialSpec

T = TypeVar("T")
MessageType = Literal["chat", "completion"]

_BEFORE_0_2 = ("gen_sampling_args", "gen_sem", "score_sem", "score", "env_client")
"""What `run_rollout` and `run_group` took in some releases of verifiers."""

_log = logging.getLogger(__name__)


class Environment(ABC):
    """Base of all environments. Subclasses define in `rollout` how a row is rolled out.

    `dataset` and `eval_dataset` are HuggingFace Datasets, lists of rows, or functions that return one. Rows have a
    `prompt` (messages or text) or a `question`, and whatever else reward functions ask for. `tool_defs`, or
    `oai_tools`, are offered to the model. A rollout ends when a conversation has `max_seq_len` tokens; one counts as
    passed from the reward `pass_threshold` on. Keywords that no class of the chain knows are refused.
    """

    keeps_unknown: ClassVar[bool] = False
    """Whether such keywords become attributes instead, as environments of verifiers expect it."""

    rollouts_are_trials: ClassVar[bool] = False

    def __init__(  # noqa: PLR0913 - the names that authors of environments know
        self,
        dataset: DatasetSource | None = None,
        eval_dataset: DatasetSource | None = None,
        *,
        system_prompt: str | None = None,
        few_shot: Sequence[Mapping[str, Any]] | None = None,
        parser: Any = None,
        rubric: Rubric | None = None,
        sampling_args: Mapping[str, Any] | None = None,
        message_type: MessageType = "chat",
        tool_defs: Sequence[Any] | None = None,
        oai_tools: Sequence[Any] | None = None,
        max_workers: int = 512,
        env_id: str | None = None,
        env_args: Mapping[str, Any] | None = None,
        map_kwargs: Mapping[str, Any] | None = None,
        max_seq_len: int | None = None,
        interleaved_rollouts: bool = False,
        score_rollouts: bool = True,
        pass_threshold: float = PASS_THRESHOLD,
        **unknown: Any,
    ) -> None:
        if not self.keeps_unknown:
            refuse_unknown(type(self).__name__, unknown, constructor_arguments(type(self)))
        if dataset is None and eval_dataset is None:
            raise UsageError(f"{type(self).__name__} needs a dataset or an eval_dataset")
        self.logger = logging.getLogger(f"{__name__}.{type(self).__name__}")
        self.dataset_source = dataset
        self.eval_dataset_source = eval_dataset
        self._rows: dict[str, RowDataset] = {}
        self.system_prompt = system_prompt
        self.few_shot = few_shot
        self.rubric = _checked(rubric) if rubric is not None else Rubric()
        self.parser = parser if parser is not None else getattr(self.rubric, "parser", None)
        self.sampling_args = as_table("sampling_args", sampling_args)
        self.message_type = message_type
        self.tool_defs = _tools(tool_defs, oai_tools)
        self.max_workers = max_workers
        self.env_id = env_id or ""
        self.env_args = dict(env_args or {})
        self.map_kwargs = dict(map_kwargs or {})
        Environment.set_max_seq_len(self, max_seq_len)
        self.interleaved_rollouts = interleaved_rollouts
        self.score_rollouts = score_rollouts
        self.pass_threshold = pass_threshold
        self.concurrency: int | None = None
        for name, value in unknown.items():
            self.logger.warning("%s does nothing with %s; it is kept as an attribute", type(self).__name__, name)
            setattr(self, name, value)

    @property
    def dataset(self) -> Any:
        """The rows to train on, loaded when first asked for; None when there are none. It may be set to others."""
        return self.build_dataset()

    @dataset.setter
    def dataset(self, source: DatasetSource | None) -> None:
        self.dataset_source = source
        self._rows.pop("dataset", None)

    @property
    def eval_dataset(self) -> Any:
        return self.build_eval_dataset()

    @eval_dataset.setter
    def eval_dataset(self, source: DatasetSource | None) -> None:
        self.eval_dataset_source = source
        self._rows.pop("eval_dataset", None)

    def build_dataset(self) -> RowDataset | None:
        """Load the rows to train on, if that has not been done. Raises UsageError for a row that cannot be used."""
        return None if self.dataset_source is None else self._load("dataset", self.dataset_source)

    def build_eval_dataset(self) -> RowDataset | None:
        return None if self.eval_dataset_source is None else self._load("eval_dataset", self.eval_dataset_source)

    def get_dataset(self, n: int = -1, seed: int | None = None) -> RowDataset:
        """The first `n` rows to train on, or all; shuffled if there is a seed. Raises UsageError without a dataset."""
        rows = self.build_dataset()
        if rows is None:
            raise UsageError(f"{type(self).__name__} has no dataset")
        return choose(rows, n, seed)

    def get_eval_dataset(self, n: int = -1, seed: int | None = None) -> RowDataset:
        """The first `n` rows to evaluate on, or all; those to train on when there are no others."""
        rows = self.build_eval_dataset()
        return self.get_dataset(n, seed) if rows is None else choose(rows, n, seed)

    def add_rubric(self, rubric: Rubric) -> None:
        self.rubric = self.rubric.plus(_checked(rubric))

    def add_monitors(self, *metrics: RewardFunc) -> None:
        """Report metrics beside the reward, but for those that the rubric has by the same names already."""
        if not isinstance(self.rubric, Rubric):  # something else that scores, on its own
            return
        known = self.rubric.get_reward_func_names()
        if new := [metric for metric in metrics if func_name(metric) not in known]:
            self.add_rubric(MonitorRubric(new, [0.0] * len(new)))

    @property
    def oai_tools(self) -> list[dict[str, Any]] | None:
        """The tools as chat completions take them. Raises UsageError for one that is none."""
        return as_tool_tables(self.tool_defs)

    @oai_tools.setter
    def oai_tools(self, tools: Sequence[Any] | None) -> None:
        self.tool_defs = None if tools is None else list(tools)

    @property
    def pass_thresholds(self) -> Mapping[str, float]:
        """Those of the environments that this one is made of, where they have their own."""
        return {}

    @property
    def requires_group_rollouts(self) -> bool:
        """Whether a rollout can only be scored together with the others of its row."""
        return bool(getattr(self.rubric, "has_group_rewards", False))

    @property
    def provides_advantages(self) -> bool:
        """Whether the rubric itself says what rollouts are worth beside each other."""
        return bool(getattr(self.rubric, "has_advantages", False))

    def set_kwargs(self, **values: Any) -> None:
        """Set what trainers set, each by its `set_…` method or as an attribute. Raises UnknownArgumentError."""
        known = [name for name in dir(self) if not name.startswith("_")]
        setters = [name.removeprefix("set_") for name in known if name.startswith("set_")]
        refuse_unknown("set_kwargs", [name for name in values if name not in [*known, *setters]], [*known, *setters])
        for name, value in values.items():
            setter = getattr(self, f"set_{name}", None)
            if setter is None:
                setattr(self, name, value)
            else:
                setter(value)

    def set_max_seq_len(self, max_seq_len: int | None) -> None:
        """Set how many tokens the conversation of a rollout may have; None for any number. Raises UsageError."""
        if max_seq_len is not None and max_seq_len < 1:
            raise UsageError(f"max_seq_len is {max_seq_len}, expected at least 1, or None for no such limit")
        self.max_seq_len: int | None = max_seq_len

    def set_score_rollouts(self, score_rollouts: bool) -> None:  # noqa: FBT001 - as trainers call it
        self.score_rollouts = score_rollouts

    def set_concurrency(self, concurrency: int) -> None:
        """Set how many rollouts run at once where a call does not say."""
        self.concurrency = concurrency

    def set_interleaved_rollouts(self, interleaved_rollouts: bool) -> None:  # noqa: FBT001 - as above
        """Kept for those who ask: `training_rows.interleaved` makes one sequence of any rollout."""
        self.interleaved_rollouts = interleaved_rollouts

    @property
    def _format(self) -> RowFormat:
        return RowFormat(self.env_id or "default", self.system_prompt, tuple(self.few_shot or ()))

    def _load(self, name: str, source: DatasetSource) -> RowDataset:
        if name not in self._rows:
            self._rows[name] = load_rows(source, self._format)
        return self._rows[name]

    async def init_state(
        self,
        input: Mapping[str, Any],  # noqa: A002 - the name that authors know
        client: Any,
        model: str,
        sampling_args: Mapping[str, Any] | None = None,
    ) -> State:
        """The state of a rollout on a row. Raises UsageError for a row or a client that is none."""
        row = format_row(input, 0, self._format)
        state = new_state(row, model, sampling_args)
        state["client"] = opened_client(client).for_rollout()
        state["tools"] = self._tools_for(state)
        recorder = rollout_of(state).recorder
        recorder.trajectory_id, recorder.max_seq_len = state["trajectory_id"], self.max_seq_len
        return state

    def _tools_for(self, state: State) -> list[dict[str, Any]] | None:
        """What the model of a rollout is offered: what the row says, else what the environment does."""
        info = state["info"]
        in_info = (info.get("tool_defs") or info.get("oai_tools")) if isinstance(info, Mapping) else None
        tools: list[dict[str, Any]] | None = state["tools"] or as_tool_tables(in_info) or self.oai_tools
        return tools

    async def get_model_response(  # noqa: PLR0913 - the names that authors of environments know
        self,
        state: State,
        prompt: Messages | str,
        client: Any = None,
        model: str | None = None,
        tool_defs: list[Any] | None = None,
        sampling_args: Mapping[str, Any] | None = None,
        message_type: str | None = None,
        *,
        oai_tools: list[Any] | None = None,
        tools: list[Any] | None = None,
    ) -> Response | Any:
        """The model's answer to a prompt. Raises ModelError, or OverlongPromptError when it does not fit the model.

        What is not given is the rollout's own: its client, model, tools and sampling arguments. A client is whatever
        `evaluate` takes. `oai_tools` and `tools` are other names of `tool_defs`; `message_type` has no effect, models
        are asked by chat completions. An override may return a Response, a chat completion as a table or an SDK's
        object, a message, or text.
        """
        offered = as_tool_tables(tool_defs or oai_tools or tools) or tools_of(state)
        sampling = state["sampling_args"] if sampling_args is None else sampling_args
        request = chat_request(as_messages(prompt), model or state["model"], offered, sampling)
        return as_response(await self._complete(state, client, request))

    @staticmethod
    async def _complete(state: State, client: Any, request: dict[str, Any]) -> dict[str, Any]:
        """What the rollout's client answers, or another one that is open for the length of the call."""
        own: Client = state["client"]
        if client is None or client is own:
            return await own.complete(request)
        async with open_client(client) as opened:
            return await opened.complete(request)

    @abstractmethod
    async def rollout(
        self,
        input: Mapping[str, Any],  # noqa: A002 - as above
        client: Any,
        model: str,
        sampling_args: Mapping[str, Any] | None = None,
    ) -> State:
        """One rollout on a row, not scored. What goes wrong in it is on the state, as `error`."""

    async def is_completed(self, state: State) -> bool:
        """Whether a stop condition ends the rollout; the state then says which."""
        with blaming("is_completed") as blamed:
            for name, condition in marked_methods(self, "stop").items():
                blamed.name = name
                holds = condition(state)
                if await holds if type(holds) is CoroutineType else await maybe_await(holds):
                    state["is_completed"], state["stop_condition"] = True, name
                    return True
        return False

    @stop
    async def max_seq_len_reached(self, state: State) -> bool:
        """The conversation has as many tokens as the trainer takes. The rollout counts as cut off."""
        if self.max_seq_len is None or not state["trajectory"]:
            return False
        reached = as_step(state["trajectory"][-1]).token_count >= self.max_seq_len
        state["is_truncated"] = state["is_truncated"] or reached
        return reached

    async def _cleanup(self, state: State) -> None:
        errors = await call_each(marked_methods(self, "cleanup"), state)
        for error in errors:
            _log.warning("rollout of %s: %s", state.get("task"), error, exc_info=error.__cause__)
        state["cleanup_errors"] = [str(error) for error in errors]

    def in_use(self) -> AbstractAsyncContextManager[object]:
        """What all rollouts share, open for the length of a block; nothing, unless a subclass has something."""
        return nullcontext()

    async def teardown(self) -> None:
        """End the use of this environment: run all teardown handlers, each even if another fails.

        Raises the first HookError then. `async with environment:` does it in the end; an evaluation never does.
        """
        await finish(self._teardown())

    async def _teardown(self) -> None:
        handlers = marked_methods(self, "teardown")
        if (of_rubric := getattr(self.rubric, "teardown", None)) is not None:
            handlers = {**handlers, "teardown of the rubric": of_rubric}
        if errors := await call_each(handlers):
            raise errors[0]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await finish(self._teardown())

    async def start_server(self, *_: Any, **__: Any) -> None:
        """Refused with UsageError: nothing has to be started, rollouts run in this process."""
        raise UsageError(
            f"{type(self).__name__} has no server: rollouts run in this process. To spread them over machines use "
            "engine='ray' with rollouts that are trials; over processes, one environment in each"
        )

    async def stop_server(self) -> None:  # noqa: B027 - nothing has to be stopped
        """Nothing: no server was started."""

    def trial_spec(self, row: Row, model: str) -> "TrialSpec":
        """The trial that a rollout on a row is, where rollouts are trials. Raises UsageError where there is no task."""
        raise NotImplementedError(f"rollouts of {type(self).__name__} are no trials")

    def job_spec(self, plan: "RunPlan", name: str) -> "JobSpec":
        """The job that rollouts of a plan amount to, where each of them is a trial. Raises UsageError."""
        raise NotImplementedError(f"rollouts of {type(self).__name__} are no trials")

    @takes_options
    async def generate(
        self,
        inputs: DatasetSource,
        client: Any,
        model: str,
        sampling_args: Mapping[str, Any] | None = None,
        max_concurrent: int = -1,
        **options: Any,
    ) -> Results:
        """Roll out each of the rows given, in their order; see `evaluate`. Those of one `example_id` are a group."""
        chosen = EvaluationOptions.read(Environment.generate, options)
        rows = load_rows(inputs, self._format)
        if chosen.order is not None:
            rows = rows.shuffle(chosen.order)
        plan = self._plan(rows, client, model, sampling_args, max_concurrent, chosen)
        async with open_model(client) as opened:
            return await run_rollouts(self, plan, opened)

    @takes_options
    async def evaluate(
        self,
        client: Any,
        model: str,
        sampling_args: Mapping[str, Any] | None = None,
        num_examples: int = -1,
        rollouts_per_example: int = 1,
        max_concurrent: int = -1,
        **options: Any,
    ) -> Results:
        """Roll out the first rows to evaluate on, each `rollouts_per_example` times, and score each rollout.

        `client` is a ClientConfig, a client with `chat.completions.create`, a function of the messages, the name of
        an upstream, or a Policy. Returns `{"outputs": [...], "metadata": {...}}`, the rollouts of one row next to each
        other. What goes wrong with one rollout is on its output and in the counts, never in the mean. With `save_to`
        each is stored there when it ends, and with `resume` those that are there already are not run again. Rollouts
        that are trials are tried again up to `retries` times when the machinery fails in a way that may pass; they run
        where `engine` says, at its `address` if it has one. The other options are in EvaluationOptions.

        Raises UsageError before anything starts, StoreError when rollouts cannot be stored. When cancelled, what runs
        is cleaned up first.
        """
        chosen = EvaluationOptions.read(Environment.evaluate, options)
        each = whole_number("rollouts_per_example", rollouts_per_example, 1)
        examples = self.get_eval_dataset(whole_number("num_examples", num_examples), chosen.order)
        rows = RowDataset(row for row in examples for _ in range(each))
        plan = self._plan(rows, client, model, sampling_args, max_concurrent, chosen)
        async with open_model(client) as opened:
            return await run_rollouts(self, plan, opened)

    def generate_sync(self, inputs: DatasetSource, client: Any, model: str, *args: Any, **options: Any) -> Results:
        """`generate`, waited for; also where an event loop is running, as in a notebook."""
        return complete(lambda: self.generate(inputs, client, model, *args, **options))

    def evaluate_sync(self, client: Any, model: str, *args: Any, **options: Any) -> Results:
        """`evaluate`, waited for; also where an event loop is running, as in a notebook."""
        return complete(lambda: self.evaluate(client, model, *args, **options))

    async def run_rollout(
        self,
        input: Mapping[str, Any],  # noqa: A002 - the name that trainers know
        client: Any,
        model: str,
        sampling_args: Mapping[str, Any] | None = None,
        max_retries: int = 0,
        state_columns: Sequence[str] | None = None,
        **others: Any,
    ) -> Output:
        """Roll out one row and score it alone. What goes wrong is the `error` of its output; see `evaluate`."""
        sampling = _of_trainers("run_rollout", others, sampling_args)
        options = EvaluationOptions(max_retries=max_retries, state_columns=state_columns, independent_scoring=True)
        plan = self._plan([format_row(input, 0, self._format)], client, model, sampling, 1, options)
        (output,) = await self._roll_out_group(plan, client, others.get("gen_sem"))
        return output

    async def run_group(
        self,
        group_inputs: Sequence[Mapping[str, Any]],
        client: Any,
        model: str,
        sampling_args: Mapping[str, Any] | None = None,
        max_retries: int = 0,
        state_columns: Sequence[str] | None = None,
        **others: Any,
    ) -> list[Output]:
        """Roll out some rows side by side and score them as one group, each with an `advantage`; see `evaluate`.

        One that fails has an `error`, and the others are compared without it.
        """
        sampling = _of_trainers("run_group", others, sampling_args)
        options = EvaluationOptions(max_retries=max_retries, state_columns=state_columns)
        rows = [format_row(row, 0, self._format) for row in group_inputs]
        plan = self._plan(rows, client, model, sampling, max(1, len(rows)), options)
        return await self._roll_out_group(plan, client, others.get("gen_sem"))

    def stream(
        self,
        inputs: DatasetSource | int,
        client: Any,
        model: str,
        sampling_args: Mapping[str, Any] | None = None,
        rollouts_per_example: int = 1,
        max_concurrent: int = -1,
        **options: Any,
    ) -> AsyncGenerator[Output, None]:
        """Outputs as they end, for `async for`; leaving the loop cancels what runs and cleans it up.

        `inputs` are rows, of which there may be no end, or a number: the first rows to train on, -1 for all. At most
        `max_concurrent` rollouts run or wait to be taken, so that a slow reader slows them down. Those of one row come
        out one after the other when the last of them has ended, each with its `advantage`; with `independent_scoring`
        each as it ends, without one. Options are those of `evaluate`. Raises UsageError.
        """
        plan = self._stream_plan(inputs, client, model, sampling_args, rollouts_per_example, max_concurrent, options)
        return _one_by_one(stream_outputs(self, plan, client))

    def stream_groups(
        self,
        inputs: DatasetSource | int,
        client: Any,
        model: str,
        sampling_args: Mapping[str, Any] | None = None,
        rollouts_per_example: int = 1,
        max_concurrent: int = -1,
        **options: Any,
    ) -> AsyncGenerator[list[Output], None]:
        """As `stream`, with the outputs of one row as a list when all have ended, each with its `advantage`."""
        plan = self._stream_plan(inputs, client, model, sampling_args, rollouts_per_example, max_concurrent, options)
        return stream_outputs(self, replace(plan, whole_groups=True), client)

    async def _roll_out_group(
        self, plan: RunPlan, client: Any, limit: AbstractAsyncContextManager[object] | None
    ) -> list[Output]:
        async with limit or nullcontext(), open_model(client) as opened:
            return (await run_rollouts(self, replace(plan, one_group=True), opened))["outputs"]

    def _plan(
        self,
        rows: Sequence[Row],
        client: Any,
        model: str,
        sampling_args: Mapping[str, Any] | None,
        max_concurrent: int,
        options: EvaluationOptions,
    ) -> RunPlan:
        wanted = whole_number("max_concurrent", max_concurrent)
        limits = [wanted, options.max_concurrent_generation or -1, self.concurrency or -1]
        return RunPlan(
            rows=rows,
            model=model,
            sampling_args={**self.sampling_args, **as_table("sampling_args", sampling_args)},
            max_concurrent=next((each for each in limits if each > 0), -1),
            state_columns=options.columns,
            save_to=options.folder(self.env_id, model),
            resume=options.goes_on,
            retries=options.trial_retries,
            engine=options.engine,
            address=options.address,
            row_retries=options.max_retries or 0,
            in_groups=(self.requires_group_rollouts or self.provides_advantages) and not options.independent_scoring,
            order=options.order,
            base_url=_address_of(client),
            on_start=options.on_start,
            listeners=options.listeners,
            on_log=options.on_log,
        )

    def _stream_plan(
        self,
        inputs: DatasetSource | int,
        client: Any,
        model: str,
        sampling_args: Mapping[str, Any] | None,
        each: int,
        max_concurrent: int,
        options: Mapping[str, Any],
    ) -> StreamPlan:
        chosen = EvaluationOptions.read(Environment.stream, options)
        whole_number("rollouts_per_example", each, 1)
        rows = self._rows_to_stream(inputs, chosen)
        kept = [row for row in rows for _ in range(each)] if isinstance(rows, RowDataset) else []
        run = self._plan(kept, client, model, sampling_args, max_concurrent, chosen)
        if not isinstance(rows, RowDataset) and (run.save_to is not None or run.engine != "local"):
            raise UsageError("rows that come one by one run on this machine and are not stored; give a list of them")
        return StreamPlan(rows, each, run, whole_groups=not chosen.independent_scoring)

    def _rows_to_stream(self, inputs: DatasetSource | int, options: EvaluationOptions) -> RowDataset | Iterator[Row]:
        if isinstance(inputs, int):
            return self.get_dataset(inputs, options.order)
        given = inputs() if callable(inputs) else inputs
        if hasattr(given, "__len__"):
            rows = load_rows(given, self._format)
            return rows if options.order is None else rows.shuffle(options.order)
        require_rows(given)
        return (format_row(row, number, self._format) for number, row in enumerate(given))


async def _one_by_one(groups: AsyncGenerator[list[T], None]) -> AsyncGenerator[T, None]:
    async with aclosing(groups):
        async for group in groups:
            for output in group:
                yield output


def _of_trainers(
    name: str, others: Mapping[str, Any], sampling_args: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    """The sampling arguments, by whichever name they come. Raises UsageError for anything that is not known at all."""
    unknown = [each for each in others if each not in _BEFORE_0_2]
    refuse_unknown(name, unknown, ["sampling_args", "max_retries", "state_columns", *_BEFORE_0_2])
    given: Mapping[str, Any] | None = others.get("gen_sampling_args", sampling_args)
    return given


def _checked(rubric: T) -> T:
    """A rubric, or something else that scores. Raises UsageError for what does not."""
    if not hasattr(rubric, "score_rollout"):
        raise UsageError(f"rubric is of type {type(rubric).__name__}, expected a Rubric")
    return rubric


def _address_of(client: Any) -> str:
    """Where a client's requests go, if it says so."""
    given = client.client if isinstance(client, Policy) else client
    return str(getattr(given, "base_url", None) or "")


def _tools(tool_defs: Sequence[Any] | None, oai_tools: Sequence[Any] | None) -> list[Any] | None:
    if tool_defs is not None and oai_tools is not None:
        raise UsageError("tool_defs and oai_tools are two names for the tools of the model: give one of them")
    given = oai_tools if tool_defs is None else tool_defs
    as_tool_tables(given)
    return None if given is None else list(given)
