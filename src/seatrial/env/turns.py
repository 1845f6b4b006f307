"""MultiTurnEnv: a rollout as a conversation, the model and the environment by turns. SingleTurnEnv has one turn.

It makes one rollout from its setup to its cleanup, and notes what goes wrong on its state; scoring is `run_row`'s.
"""

import asyncio
import time
from collections.abc import Mapping
from contextlib import nullcontext
from types import TracebackType
from typing import Any, ClassVar, NoReturn

from seatrial.concurrency import finish
from seatrial.env.client import Client, open_client
from seatrial.env.environment import Environment, MessageType
from seatrial.env.hooks import blaming, marked_methods, maybe_await, stop
from seatrial.env.messages import Messages, Response, as_messages, as_response
from seatrial.env.monitors import num_turns
from seatrial.env.rollout import State, TrajectoryStep, rollout_of
from seatrial.env.run_row import give_back
from seatrial.errors import OverlongPromptError, SeatrialError, UsageError
from seatrial.model.arguments import positive, whole_number


class MultiTurnEnv(Environment):
    """Base of environments with turns.

    A rollout is `setup_state`, then turns until a stop condition holds, then `post_rollout` and the cleanup handlers.
    In each turn the model answers `get_prompt_messages`; from the second on, `env_response` has the word before it.
    After `max_turns` answers of the model (-1: no such limit) a rollout ends, and after `timeout_seconds`, its setup
    not counted, and once the model has written `max_total_completion_tokens` (-1: no such limit); none is an error.
    """

    asks_once_more: ClassVar[bool] = False
    """Whether the model is still asked after words of `env_response` that a stop condition holds after, unless they
    are a `final_env_response`. Environments of verifiers rely on it."""

    def __init__(self, max_turns: int = -1, timeout_seconds: float | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        positive("timeout_seconds", timeout_seconds or None, "no such limit")
        self.max_turns = whole_number("max_turns", max_turns)
        self.timeout_seconds = timeout_seconds
        self.max_total_completion_tokens = -1
        self.add_monitors(num_turns)

    def set_max_total_completion_tokens(self, max_total_completion_tokens: int) -> None:
        """Set how many tokens the model may write in a rollout; the answer that reaches them is its last."""
        self.max_total_completion_tokens = max_total_completion_tokens

    async def env_response(self, messages: Messages, state: State, **kwargs: Any) -> Messages | str:
        """What the environment says to the conversation so far: messages, or text for one of the user's.

        To end the rollout with it, set `state["final_env_response"]` to it. Subclasses that go beyond one turn say what
        it is.
        """
        raise NotImplementedError(f"{type(self).__name__} has more than one turn and no env_response")

    async def setup_state(self, state: State) -> State | None:
        """Prepare a rollout. An override writes into the state."""
        return state

    async def get_prompt_messages(self, state: State) -> Messages:
        """The messages the model is asked with next: all so far, and what the environment says to them."""
        if not state["trajectory"]:
            return list(state["prompt"])
        last = state["trajectory"][-1]
        messages = [*last["prompt"], *last["completion"]]
        with blaming("env_response"):
            said = as_messages(await maybe_await(self.env_response(messages, state)))
        return [*messages, *said]

    async def add_model_response(self, state: State, prompt: Messages, response: Response) -> None:
        usage = state["usage"]
        usage["calls"] += 1
        if response.usage is not None:
            usage["input_tokens"] += response.usage.input_tokens
            usage["cached_tokens"] += response.usage.cached_tokens
            usage["output_tokens"] += response.usage.output_tokens
        state["is_truncated"] = state["is_truncated"] or response.is_truncated
        await self.add_trajectory_step(state, rollout_of(state).recorder.step(prompt, response))

    async def add_trajectory_step(self, state: State, step: TrajectoryStep) -> None:
        state["trajectory"].append(step)

    async def render_completion(self, state: State) -> Messages | str | None:
        """All messages after the prompt, as they stand in the last turn.

        They are written into the state too, so that an override may change them there and return nothing.
        """
        state["completion"] = []
        if state["trajectory"]:
            last = state["trajectory"][-1]
            after = last["prompt"][len(state["prompt"]) :]
            state["completion"] = [*after, *last["completion"], *rollout_of(state).unanswered]
        return list(state["completion"])

    async def post_rollout(self, state: State) -> None:
        """After the last turn and before the cleanup, also when the rollout has failed."""

    def mark_timed_out(self, state: State) -> None:
        """Note that a rollout ran out of time. It is called before the cleanup."""
        state["timed_out"] = state["is_truncated"] = True

    @stop(priority=100)
    async def has_error(self, state: State, **kwargs: Any) -> bool:
        return state["error"] is not None

    @stop
    async def prompt_too_long(self, state: State, **kwargs: Any) -> bool:
        return bool(state.get("prompt_too_long"))

    @stop
    async def max_turns_reached(self, state: State, **kwargs: Any) -> bool:
        """The model has answered as often as it may."""
        return 0 < self.max_turns <= len(state["trajectory"])

    @stop
    async def max_total_completion_tokens_reached(self, state: State, **kwargs: Any) -> bool:
        """The model has written as much as it may, by what its server said."""
        return bool(0 < self.max_total_completion_tokens <= state["usage"]["output_tokens"])

    @stop
    async def timeout_reached(self, state: State, **kwargs: Any) -> bool:
        return bool(state.get("timed_out"))

    @stop
    async def has_final_env_response(self, state: State, **kwargs: Any) -> bool:
        return state["final_env_response"] is not None

    async def rollout(
        self,
        input: Mapping[str, Any],  # noqa: A002 - the name that authors know
        client: Any,
        model: str,
        sampling_args: Mapping[str, Any] | None = None,
    ) -> State:
        """One rollout on a row, not scored. What goes wrong in it is on the state, as `error`."""
        if not isinstance(client, Client):
            async with open_client(client) as opened:
                return await self.rollout(input, opened, model, sampling_args)
        state = await self.init_state(input, client, model, sampling_args)
        try:
            try:
                with _timed(state, "setup_ms"), _noting(state), blaming("setup_state"):
                    prepared = await maybe_await(self.setup_state(state))
                    if prepared is not None and prepared is not state:
                        state.update(prepared)
                await self._finish_rollout(state)
            finally:
                if marked_methods(self, "cleanup"):
                    await finish(self._cleanup(state))
        except BaseException:  # the state is not returned, so it is never scored
            await give_back(state)
            raise
        return state

    async def _finish_rollout(self, state: State) -> None:
        """All of a rollout from its first turn to its cleanup."""
        with _timed(state, "generation_ms"), _noting(state):
            await self._converse(state)
        with _noting(state):
            if not state["is_completed"]:
                await self.is_completed(state)
        with _noting(state), blaming("render_completion"):
            rendered = await maybe_await(self.render_completion(state))
            if rendered is not None:
                state["completion"] = rendered
        with _noting(state), blaming("post_rollout"):
            await maybe_await(self.post_rollout(state))

    async def _converse(self, state: State) -> None:
        limit = nullcontext() if self.timeout_seconds is None else asyncio.timeout(self.timeout_seconds)
        try:
            async with limit:
                while not await self.is_completed(state):
                    await self._take_turn(state)
        except TimeoutError:
            self.mark_timed_out(state)

    async def _take_turn(self, state: State) -> None:
        with blaming("get_prompt_messages"):
            prompt = as_messages(await maybe_await(self.get_prompt_messages(state)))
        if await self._is_over(state):  # by what the environment has just said
            rollout_of(state).unanswered = _after_last_turn(state, prompt)
            return
        try:
            with blaming("get_model_response"):
                response = await self._ask_model(state, prompt)
        except OverlongPromptError:
            state["prompt_too_long"] = state["is_truncated"] = True
            return
        if response is None:
            return
        with blaming("add_model_response"):
            await maybe_await(self.add_model_response(state, prompt, response))

    async def _ask_model(self, state: State, prompt: Messages) -> Response | None:
        """The model's answer; None when the agent that asked has ended."""
        return as_response(await maybe_await(self.get_model_response(state, prompt)))

    async def _is_over(self, state: State) -> bool:
        """Whether the model is not to be asked any more, now that the environment has spoken."""
        if self.asks_once_more and state["final_env_response"] is None:
            return False
        return await self.is_completed(state)


class _noting:  # noqa: N801 - it is used like a function
    """What goes wrong in the block ends the rollout; the first error is the one that stays."""

    __slots__ = ("_state",)

    def __init__(self, state: State) -> None:
        self._state = state

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(error, SeatrialError):
            self._state["error"] = self._state["error"] or error
            return True
        return False


class _timed:  # noqa: N801 - as above
    """Adds the time that the block takes to the state's."""

    __slots__ = ("_began", "_name", "_state")

    def __init__(self, state: State, name: str) -> None:
        self._state = state
        self._name = name

    def __enter__(self) -> None:
        self._began = time.perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._state["timing"][self._name] += (time.perf_counter() - self._began) * 1000


def _after_last_turn(state: State, prompt: Messages) -> Messages:
    """What the environment said last, which the model is not asked about any more: its final word, if it has one."""
    final, last = state["final_env_response"], state["trajectory"][-1] if state["trajectory"] else None
    if final is not None:
        return as_messages(final) if final else []
    known = len(last["prompt"]) + len(last["completion"]) if last else len(prompt)
    return prompt[known:]


class SingleTurnEnv(MultiTurnEnv):
    """A rollout is one answer.

    Models are asked by chat completions only. With `message_type="completion"` a prompt of text is asked as the one
    message of a user, and reward functions get the answer as text.
    """

    def __init__(self, message_type: MessageType = "chat", **kwargs: Any) -> None:
        if message_type not in ("chat", "completion"):
            raise UsageError(f"message_type is {message_type!r}, expected 'chat' or 'completion'")
        super().__init__(max_turns=1, message_type=message_type, **kwargs)

    async def env_response(self, messages: Messages, state: State, **kwargs: Any) -> NoReturn:
        """Never: the rollout is over by then."""
        raise NotImplementedError(f"{type(self).__name__} has one turn, in which the environment says nothing")

    async def render_completion(self, state: State) -> Messages | str | None:
        """The answer: its message, or its text where that was asked for."""
        messages = await super().render_completion(state)
        if self.message_type == "chat" or not isinstance(messages, list):
            return messages
        state["completion"] = "".join(str(message.get("content") or "") for message in messages)
        return str(state["completion"])
