"""An agent at work in its sandbox, and the upstream that passes its requests to the loop of its rollout.

To the gateway an Interception is an upstream like any other: each request becomes a turn, which waits until the loop
has answered. An AgentRun is the task that runs the agent meanwhile. `agent_state` imports both with the first rollout,
for they need all dialects of models.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import orjson

from seatrial.concurrency import finish
from seatrial.env.agent_state import RolloutEnded
from seatrial.env.client import Client
from seatrial.env.messages import Messages, Response, as_messages
from seatrial.errors import ProviderError
from seatrial.gateway.api import ModelReply, ModelRequest
from seatrial.gateway.dialects import DIALECTS, with_one_model
from seatrial.gateway.upstreams.replies import (
    JSON_HEADERS,
    answer,
    asked_model,
    error_reply,
    reply_in_pieces,
    side_answer,
)
from seatrial.model.record import AgentResult
from seatrial.model.trace import DialectName

if TYPE_CHECKING:
    from seatrial.env.sandbox_client import BackgroundJob, SandboxClient

_OF_THE_WIRE = frozenset({"messages", "model", "stream", "stream_options", "tools", "n"})
_OF_STREAMS = frozenset({"stream", "stream_options"})
_GRACE_SEC = 5.0
_FINAL = {**JSON_HEADERS, "x-should-retry": "false"}  # both official SDKs obey it


@dataclass(eq=False, slots=True)
class InterceptedTurn:
    """One request of an agent, and the answer that it waits for."""

    payload: Mapping[str, Any]
    answered: "asyncio.Future[dict[str, Any] | RolloutEnded]"
    asked: tuple[Response, dict[str, Any]] | None = None
    """What the model said to it, as the loop sees it and as it came."""
    over: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the loop is done with it, whether or not the agent still waits."""

    @property
    def messages(self) -> Messages:
        """What the agent asks with. Raises TypeError for messages that are none."""
        return as_messages(self.payload.get("messages"))

    @property
    def tools(self) -> list[Any] | None:
        return self.payload.get("tools") or None

    @property
    def arguments(self) -> dict[str, Any]:
        """What else the agent asks for: temperature, limits, formats."""
        payload, _ = with_one_model(dict(self.payload))
        return {name: value for name, value in payload.items() if name not in _OF_THE_WIRE}

    def answer(self, response: Response) -> None:
        """Let the agent have an answer; the whole of what the model said, if this is it."""
        self.over.set()
        whole = self.asked[1] if self.asked and self.asked[0] is response else _completion(response, self.payload)
        if not self.answered.done():
            self.answered.set_result(whole)

    def refuse(self, why: RolloutEnded | ProviderError) -> None:
        self.over.set()
        if self.answered.done():
            return
        if isinstance(why, RolloutEnded):
            self.answered.set_result(why)
        else:
            self.answered.set_exception(why)


@dataclass(eq=False, slots=True)
class Interception:
    """An upstream whose requests are taken one by one, in the order in which they come, until it is closed."""

    name: str
    client: Client | None = None
    """The client that the loop asks; None where the environment asks in its own way."""
    told: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when an agent got the error that there are no more answers."""
    _waiting: "asyncio.Queue[InterceptedTurn | None]" = field(default_factory=asyncio.Queue)
    _open: set[InterceptedTurn] = field(default_factory=set)
    _closed: RolloutEnded | ProviderError | None = None
    _taken: InterceptedTurn | None = None

    @property
    def dialects(self) -> frozenset[DialectName]:
        """Environments speak chat; the gateway translates the rest."""
        return frozenset({"openai_chat"})

    @asynccontextmanager
    async def ask(self, request: ModelRequest) -> AsyncIterator[ModelReply]:
        if request.dialect is None:
            yield side_answer(request, self.name)
            return
        turn = InterceptedTurn(request.payload or {}, asyncio.get_running_loop().create_future())
        try:
            turn.messages  # noqa: B018 - the agent gets its mistake as an answer; it is not a turn
        except TypeError as error:
            yield error_reply(request, 400, str(error))
            return
        if self._closed is not None:
            turn.refuse(self._closed)
        else:
            self._open.add(turn)
            self._waiting.put_nowait(turn)
        try:
            said = await turn.answered
        finally:
            self._open.discard(turn)
        if isinstance(said, RolloutEnded):
            self.told.set()
            yield _refusal(said)
        else:
            yield answer(request, said)

    def is_stuck(self, trial: int) -> bool:
        """Whether what the loop asks has not got as far as its model's provider."""
        return self.client is not None and self.client.is_stuck

    async def answers(self, request: ModelRequest) -> bool | None:
        """Whether the loop's model answers; where it cannot be asked, only waits until the loop has its answer."""
        if self.client is not None:
            asked = {name: value for name, value in (request.payload or {}).items() if name not in _OF_STREAMS}
            answers = await self.client.answers({**asked, "model": self.name})
            if answers is not None:
                return answers
        if self._taken is not None:
            await self._taken.over.wait()
        return None

    def trouble(self, trial: int) -> str | None:
        return self.client.trouble if self.client is not None else None

    async def next_turn(self) -> InterceptedTurn | None:
        """The next request whose sender still waits; None when there will be none."""
        while True:
            turn = await self._waiting.get()
            if turn is None:
                self.end()  # the next call returns None too
                return None
            if not turn.answered.done():
                self._taken = turn
                return turn

    def end(self) -> None:
        """Let `next_turn` return None: the agent has ended."""
        self._waiting.put_nowait(None)

    def reopen(self) -> None:
        """Answer again, after an agent has ended and before another one starts."""
        self._closed = None
        self.told.clear()
        self._waiting = asyncio.Queue()

    def close(self, why: RolloutEnded | ProviderError) -> None:
        """Answer no request any more, neither those that wait nor those that come. The first reason counts."""
        self._closed = self._closed or why
        for turn in list(self._open):
            turn.refuse(self._closed)


def _refusal(ended: RolloutEnded) -> ModelReply:
    body = DIALECTS["openai_chat"].error_body(ended.status, "budget", ended.message)
    return reply_in_pieces(ended.status, _FINAL, [orjson.dumps(body)])


def _completion(response: Response, payload: Mapping[str, Any]) -> dict[str, Any]:
    """A response as the chat completion that it would have come in."""
    model = response.model or asked_model(ModelRequest("", payload=dict(payload)), "seatrial")
    usage = response.usage
    counts = {
        "prompt_tokens": usage.input_tokens if usage else 0,
        "completion_tokens": usage.output_tokens if usage else 0,
        "total_tokens": usage.input_tokens + usage.output_tokens if usage else 0,
    }
    reason = response.finish_reason or ("tool_calls" if response.message.get("tool_calls") else "stop")
    return {
        "id": response.id or "chatcmpl-seatrial",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "message": {"content": None, **response.message}, "finish_reason": reason}],
        "usage": counts,
    }


class AgentRun:
    """The task that runs an agent, and the requests it makes meanwhile. `stop` must be called in the end."""

    def __init__(self, interception: Interception, running: Coroutine[Any, Any, AgentResult]) -> None:
        self._interception = interception
        self._began = time.monotonic()
        self._ended_by: Literal["killed", "timed_out"] = "killed"
        # A task of its own, because the loop goes on meanwhile; `stop` waits for it.
        self._task = asyncio.create_task(running)
        self.over = asyncio.Event()
        """Set when the agent has come to its end."""
        self._task.add_done_callback(self._note_end)

    def _note_end(self, _: "asyncio.Task[AgentResult]") -> None:
        self.over.set()
        self._interception.end()

    async def wind_down(self, why: RolloutEnded, deadline_sec: float | None) -> None:
        """Let the agent finish with what it knows, until it asks again: then it is told why not, and ended soon after.

        At the end of its time, which counts from its start, it is ended in any case.
        """
        self._interception.close(why)
        left = None if deadline_sec is None else max(0.0, deadline_sec - (time.monotonic() - self._began))
        told = asyncio.ensure_future(self._interception.told.wait())
        try:
            done, _ = await asyncio.wait({self._task, told}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        finally:
            told.cancel()
        if not done:
            self._ended_by = "timed_out"
        elif not self._task.done():
            await asyncio.wait({self._task}, timeout=_GRACE_SEC if left is None else min(_GRACE_SEC, left))
        await self.stop(why)

    async def stop(self, why: RolloutEnded | ProviderError, by: Literal["killed", "timed_out"] | None = None) -> None:
        self._interception.close(why)
        self._ended_by = by or self._ended_by
        self._task.cancel()
        await finish(asyncio.wait({self._task}))

    def result(self) -> AgentResult:
        """How it ended, after it has. Raises what kept it from coming to its end, unless we ended it."""
        if self._task.cancelled():
            return AgentResult(status=self._ended_by, duration_sec=time.monotonic() - self._began)
        return self._task.result()


async def run_job(client: "SandboxClient", job: "BackgroundJob", logs: Path) -> AgentResult:
    """See a background job that is an agent to its end; what it wrote goes to `logs`."""
    began = time.monotonic()
    try:
        ended = await client.wait_for_background_job(job.sandbox_id, job)
    except asyncio.CancelledError:
        await client.stop_background_job(job.sandbox_id, job)
        raise
    logs.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240 - one directory, two files
    for name, text in (("stdout", ended.stdout), ("stderr", ended.stderr)):
        (logs / f"{name}.txt").write_text(text or "")
    status: Literal["killed", "exited"] = "killed" if ended.exit_code is None or ended.exit_code < 0 else "exited"
    return AgentResult(status=status, exit_code=ended.exit_code, duration_sec=time.monotonic() - began)
