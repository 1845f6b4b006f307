"""Interception: the model that an agent in a sandbox talks to is the loop of its rollout.

To the gateway it is an upstream like any other. Each request becomes a turn, which waits until the loop has answered.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson

from seatrial.env.client import Client
from seatrial.env.messages import Messages, as_messages
from seatrial.env.response import Response
from seatrial.errors import ProviderError
from seatrial.gateway.api import ModelReply, ModelRequest
from seatrial.gateway.dialects import DIALECTS
from seatrial.gateway.dialects.fields import with_one_model
from seatrial.gateway.upstreams.answers import (
    JSON_HEADERS,
    answer,
    asked_model,
    error_reply,
    reply_in_pieces,
    side_answer,
)
from seatrial.model.trace import Dialect

_OF_THE_WIRE = frozenset({"messages", "model", "stream", "stream_options", "tools", "n"})
_OF_STREAMS = frozenset({"stream", "stream_options"})
_FINAL = {**JSON_HEADERS, "x-should-retry": "false"}  # both official SDKs obey it


@dataclass(frozen=True, slots=True)
class RolloutEnded:
    """Why an agent gets no answers any more, as a provider would put it."""

    status: int
    message: str


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
        """The tools that the agent offers."""
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
        """Let the agent know that there is no answer."""
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
    """Whom the loop asks, as far as it does not decide that by itself."""
    told: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when an agent has been told that it gets no answers any more."""
    _waiting: "asyncio.Queue[InterceptedTurn | None]" = field(default_factory=asyncio.Queue)
    _open: set[InterceptedTurn] = field(default_factory=set)
    _closed: RolloutEnded | ProviderError | None = None
    _taken: InterceptedTurn | None = None

    @property
    def dialects(self) -> frozenset[Dialect]:
        """Environments speak chat; the gateway translates the rest."""
        return frozenset({"openai_chat"})

    @asynccontextmanager
    async def ask(self, request: ModelRequest) -> AsyncIterator[ModelReply]:
        """What the loop answers."""
        if request.dialect is None:
            yield side_answer(request, self.name)
            return
        turn = InterceptedTurn(request.payload or {}, asyncio.get_running_loop().create_future())
        try:
            turn.messages  # noqa: B018 - what the agent does wrong is told to it, and is no turn
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
        """What keeps the loop's model from answering, as far as its client tells."""
        return self.client.trouble if self.client is not None else None

    async def next_turn(self) -> InterceptedTurn | None:
        """The next request that somebody still waits for; None when there will be none."""
        while True:
            turn = await self._waiting.get()
            if turn is None:
                self.end()  # whoever asks again is told again
                return None
            if not turn.answered.done():
                self._taken = turn
                return turn

    def end(self) -> None:
        """There will be no more requests: nobody is there any more to make them."""
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
