"""Environment: a dataset, a rubric, and the rollouts of a model on them.

What a rollout is, subclasses say. Here is how many of them run side by side, none the worse for its siblings.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from seatrial.concurrency import complete, finish
from seatrial.env.arguments import arguments_of, constructor_arguments, refuse_unknown
from seatrial.env.client import Client, chat_request, open_client
from seatrial.env.decorators import marked_methods
from seatrial.env.hooks import blaming, settled
from seatrial.env.messages import Messages
from seatrial.env.response import Response, as_response
from seatrial.env.results import Results
from seatrial.env.rows import DatasetSource, Row, RowFormat, choose, format_row, load_rows
from seatrial.env.rubric import Rubric
from seatrial.env.running import USUAL_RETRIES, RunPlan, run_rollouts
from seatrial.env.state import State, new_state
from seatrial.errors import UsageError

if TYPE_CHECKING:
    from seatrial.model.job import JobSpec
    from seatrial.trial.spec import TrialSpec

_log = logging.getLogger(__name__)


class Environment(ABC):
    """Base of all environments.

    `dataset` and `eval_dataset` are HuggingFace Datasets, lists of rows, or functions that return one. Rows have a
    `prompt` (messages or text) or a `question`, and whatever else reward functions ask for. Keywords that no class of
    the chain knows are refused.
    """

    rollouts_are_trials: ClassVar[bool] = False

    def __init__(  # noqa: PLR0913 - the names that authors of environments know
        self,
        dataset: DatasetSource | None = None,
        eval_dataset: DatasetSource | None = None,
        *,
        system_prompt: str | None = None,
        few_shot: Sequence[Mapping[str, Any]] | None = None,
        rubric: Rubric | None = None,
        sampling_args: Mapping[str, Any] | None = None,
        env_id: str | None = None,
        score_rollouts: bool = True,
        **unknown: Any,
    ) -> None:
        refuse_unknown(type(self).__name__, unknown, constructor_arguments(type(self)))
        if dataset is None and eval_dataset is None:
            raise UsageError(f"{type(self).__name__} needs a dataset or an eval_dataset")
        self.dataset = dataset
        self.eval_dataset = eval_dataset
        self.system_prompt = system_prompt
        self.few_shot = few_shot
        self.rubric = rubric or Rubric()
        self.sampling_args = dict(sampling_args or {})
        self.env_id = env_id or ""
        self.score_rollouts = score_rollouts
        self._rows: dict[str, list[Row]] = {}

    def get_dataset(self, n: int = -1, seed: int | None = None) -> list[Row]:
        """The first `n` rows to train on, or all; shuffled if there is a seed. Raises UsageError without a dataset."""
        return choose(self._load("dataset"), n, seed)

    def get_eval_dataset(self, n: int = -1, seed: int | None = None) -> list[Row]:
        """The first `n` rows to evaluate on, or all; those to train on when there are no others."""
        return choose(self._load("dataset" if self.eval_dataset is None else "eval_dataset"), n, seed)

    def add_rubric(self, rubric: Rubric) -> None:
        """Add the functions of another rubric to those of this environment."""
        self.rubric = self.rubric.plus(rubric)

    async def init_state(
        self,
        input: Mapping[str, Any],  # noqa: A002 - the name that authors know
        client: Client,
        model: str,
        sampling_args: Mapping[str, Any] | None = None,
    ) -> State:
        """The state of a rollout on a row. Raises UsageError for a row that is none."""
        row = format_row(input, 0, self._format)
        state = new_state(row, model, sampling_args)
        state["client"] = client.for_rollout()
        return state

    async def get_model_response(
        self,
        state: State,
        prompt: Messages,
        model: str | None = None,
        tools: list[Any] | None = None,
        sampling_args: Mapping[str, Any] | None = None,
    ) -> Response | Any:
        """The model's answer to a prompt. Raises ModelError, or OverlongPromptError when it does not fit the model.

        An override may return a Response, a chat completion as a table or an SDK's object, a message, or text.
        """
        sampling = state["sampling_args"] if sampling_args is None else sampling_args
        request = chat_request(prompt, model or state["model"], tools or state["tools"], sampling)
        return as_response(await state["client"].complete(request))

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
        for name, condition in marked_methods(self, "stop").items():
            with blaming(name):
                if await settled(condition(state)):
                    state["is_completed"], state["stop_condition"] = True, name
                    return True
        return False

    async def _cleanup(self, state: State) -> None:
        """Run all cleanup handlers for a rollout, each even if another fails."""
        errors = []
        for name, handler in marked_methods(self, "cleanup").items():
            try:
                with blaming(name):
                    await settled(handler(state))
            except Exception as error:  # noqa: BLE001 - it is on the state, and the next one has its turn
                _log.warning("rollout of %s: %s", state.get("task"), error, exc_info=error.__cause__)
                errors.append(str(error))
        state["cleanup_errors"] = errors

    def in_use(self) -> AbstractAsyncContextManager[object]:
        """What all rollouts share, open for the length of a block; nothing, unless a subclass has something."""
        return nullcontext()

    async def teardown(self) -> None:
        """End the use of this environment: run all teardown handlers, each even if another fails.

        Raises the first HookError then. `async with environment:` does it in the end; an evaluation never does.
        """
        await finish(self._teardown())

    async def _teardown(self) -> None:
        errors = []
        for name, handler in marked_methods(self, "teardown").items():
            try:
                with blaming(name):
                    await settled(handler())
            except Exception as error:  # noqa: BLE001 - raised below
                errors.append(error)
        if errors:
            raise errors[0]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await finish(self._teardown())

    async def generate(  # noqa: PLR0913 - the names that authors know
        self,
        inputs: DatasetSource,
        client: Any,
        model: str,
        sampling_args: Mapping[str, Any] | None = None,
        max_concurrent: int = -1,
        *,
        state_columns: Sequence[str] = (),
        save_to: Path | str | None = None,
        resume: bool = False,
        retries: int = USUAL_RETRIES,
        engine: str = "local",
        address: str | None = None,
        **unknown: Any,
    ) -> Results:
        """Roll out each of the rows given, in their order; see `evaluate`."""
        refuse_unknown("generate", unknown, arguments_of(Environment.generate))
        if resume and save_to is None:
            raise UsageError("resume=True goes on with what is in a folder: name it by save_to")
        if address is not None and engine == "local":
            raise UsageError("address is that of a cluster: name its engine too, as in engine='ray'")
        if retries < 0:
            raise UsageError(f"retries is {retries}, expected 0 or more")
        plan = RunPlan(
            rows=load_rows(inputs, self._format),
            model=model,
            sampling_args={**self.sampling_args, **(sampling_args or {})},
            max_concurrent=max_concurrent,
            state_columns=tuple(state_columns),
            save_to=Path(save_to) if save_to is not None else None,
            resume=resume,
            retries=retries,
            engine=engine,
            address=address,
        )
        async with open_client(client) as opened:
            return await run_rollouts(self, plan, opened)

    async def evaluate(  # noqa: PLR0913 - as above
        self,
        client: Any,
        model: str,
        sampling_args: Mapping[str, Any] | None = None,
        num_examples: int = -1,
        rollouts_per_example: int = 1,
        max_concurrent: int = -1,
        *,
        state_columns: Sequence[str] = (),
        save_to: Path | str | None = None,
        resume: bool = False,
        retries: int = USUAL_RETRIES,
        engine: str = "local",
        address: str | None = None,
        **unknown: Any,
    ) -> Results:
        """Roll out the first rows to evaluate on, each `rollouts_per_example` times, and score each rollout.

        `client` is a ClientConfig, a client with `chat.completions.create`, a function of the messages, or the name of
        an upstream. Returns `{"outputs": [...], "metadata": {...}}`, the rollouts of one row next to each other. What
        goes wrong with one rollout is on its output and in the counts, never in the mean. With `save_to` each is stored
        there when it ends, and with `resume` those that are there already are not run again. Rollouts that are trials
        are tried again up to `retries` times when the machinery fails in a way that may pass; they run where `engine`
        says, at its `address` if it has one.

        Raises UsageError before anything starts, StoreError when rollouts cannot be stored. When cancelled, what runs
        is cleaned up first.
        """
        refuse_unknown("evaluate", unknown, arguments_of(Environment.evaluate))
        if rollouts_per_example < 1:
            raise UsageError(f"rollouts_per_example is {rollouts_per_example}, expected at least 1")
        rows = self.get_eval_dataset(num_examples)
        return await self.generate(
            [row for row in rows for _ in range(rollouts_per_example)],
            client,
            model,
            sampling_args,
            max_concurrent,
            state_columns=state_columns,
            save_to=save_to,
            resume=resume,
            retries=retries,
            engine=engine,
            address=address,
        )

    def generate_sync(self, inputs: DatasetSource, client: Any, model: str, **options: Any) -> Results:
        """`generate`, waited for; also where an event loop is running, as in a notebook."""
        return complete(lambda: self.generate(inputs, client, model, **options))

    def evaluate_sync(self, client: Any, model: str, **options: Any) -> Results:
        """`evaluate`, waited for; also where an event loop is running, as in a notebook."""
        return complete(lambda: self.evaluate(client, model, **options))

    def trial_spec(self, row: Row, model: str) -> "TrialSpec":
        """The trial that a rollout on a row is, where rollouts are trials. Raises UsageError where there is no task."""
        raise NotImplementedError(f"rollouts of {type(self).__name__} are no trials")

    def job_spec(self, plan: RunPlan, name: str) -> "JobSpec":
        """The job that rollouts of a plan amount to, where each of them is a trial. Raises UsageError."""
        raise NotImplementedError(f"rollouts of {type(self).__name__} are no trials")

    @property
    def _format(self) -> RowFormat:
        return RowFormat(self.env_id or "default", self.system_prompt, tuple(self.few_shot or ()))

    def _load(self, name: str) -> list[Row]:
        source: DatasetSource | None = getattr(self, name)
        if source is None:
            raise UsageError(f"{type(self).__name__} has no {name}")
        if name not in self._rows:
            self._rows[name] = load_rows(source, self._format)
        return self._rows[name]
