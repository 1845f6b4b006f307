"""Lifecycle: one rollout of an environment from its row to its end, as far as all environments have it in common.

What a rollout is, subclasses say.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from types import CoroutineType, TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from seatrial.concurrency import finish
from seatrial.env.client import Client, chat_request, open_client
from seatrial.env.decorators import marked_methods, stop
from seatrial.env.definition import Definition
from seatrial.env.hooks import blaming, settled
from seatrial.env.messages import Messages, as_messages
from seatrial.env.response import Response, as_response
from seatrial.env.rows import Row, format_row
from seatrial.env.state import State, new_state, rollout_of, tools_of
from seatrial.env.tool_tables import as_tool_tables
from seatrial.env.trajectory import as_step
from seatrial.errors import UsageError

if TYPE_CHECKING:
    from seatrial.env.running import RunPlan
    from seatrial.model.job import JobSpec
    from seatrial.trial.spec import TrialSpec

_log = logging.getLogger(__name__)


class Lifecycle(Definition, ABC):
    """An environment whose rollouts begin, are asked whether they are done, and are cleaned up after."""

    rollouts_are_trials: ClassVar[bool] = False

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

    async def get_model_response(  # noqa: PLR0913, PLR0917 - the names that authors of environments know
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
                if await holds if type(holds) is CoroutineType else await settled(holds):
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
        handlers = marked_methods(self, "teardown")
        if (of_rubric := getattr(self.rubric, "teardown", None)) is not None:
            handlers = {**handlers, "teardown of the rubric": of_rubric}
        for name, handler in handlers.items():
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

    async def start_server(self, *_: Any, **__: Any) -> None:
        """Refused with UsageError: nothing has to be started, rollouts run in this process."""
        raise UsageError(
            f"{type(self).__name__} has no server: rollouts run in this process. To spread them over machines use "
            "engine='ray' with rollouts that are trials; over processes, one environment in each"
        )

    async def stop_server(self) -> None:
        """Nothing: no server was started."""

    def trial_spec(self, row: Row, model: str) -> "TrialSpec":
        """The trial that a rollout on a row is, where rollouts are trials. Raises UsageError where there is no task."""
        raise NotImplementedError(f"rollouts of {type(self).__name__} are no trials")

    def job_spec(self, plan: "RunPlan", name: str) -> "JobSpec":
        """The job that rollouts of a plan amount to, where each of them is a trial. Raises UsageError."""
        raise NotImplementedError(f"rollouts of {type(self).__name__} are no trials")
