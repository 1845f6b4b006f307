"""FunctionModel: a Python callable as a model, for trainers that hold the policy themselves."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from seatrial.errors import ProviderError, SeatrialError
from seatrial.gateway.api import ModelReply, ModelRequest
from seatrial.gateway.dialects import DIALECTS
from seatrial.gateway.upstreams.replies import (
    Reply,
    answer,
    asked_model,
    check_sendable,
    estimate_usage,
    final_error,
    parse_reply,
    render_response,
    side_answer,
)
from seatrial.model.trace import DialectName

Said = str | Reply | dict[str, Any]
ModelFunction = Callable[[dict[str, Any]], Said | Awaitable[Said]]


class FunctionModel:
    """Answers with what a function of the request returns: text, a reply, or a whole response of its dialect.

    A plain function runs in a thread, so that it may compute; an async one runs on the loop. A whole response is kept
    as it is, log-probabilities and token ids included. Whatever the function raises is a ProviderError.
    """

    def __init__(self, function: ModelFunction, dialect: DialectName = "openai_chat", name: str = "function") -> None:
        self._function = function
        self._dialect: DialectName = dialect
        self._name = name
        self._serials = count()
        call = getattr(function, "__call__", function)  # noqa: B004 - an object with an async __call__ is async too
        self._is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)

    @property
    def dialects(self) -> frozenset[DialectName]:
        return frozenset({self._dialect})

    @asynccontextmanager
    async def ask(self, request: ModelRequest) -> AsyncIterator[ModelReply]:
        if request.dialect is None:
            yield side_answer(request, self._name)
        else:
            yield answer(request, self._response(request, await self._call(request.payload or {})))

    async def respond(self, payload: dict[str, Any]) -> dict[str, Any]:
        """What the function says to a request of its dialect, for those in this process: not by way of bytes."""
        said = await self._call(payload)
        response = self._response(ModelRequest("", dialect=self._dialect, payload=payload), said)
        check_sendable(response)
        return response

    async def _call(self, payload: dict[str, Any]) -> Said:
        try:
            if self._is_async:
                said = self._function(payload)
            else:
                said = await asyncio.to_thread(self._function, payload)
            return await said if inspect.isawaitable(said) else said
        except SeatrialError:
            raise
        except Exception as error:
            raise ProviderError(f"the model function {self._name} failed: {type(error).__name__}: {error}") from error

    def _response(self, request: ModelRequest, said: object) -> dict[str, Any]:
        if isinstance(said, dict) and DIALECTS[self._dialect].answer_field in said:
            return said
        try:
            reply = said if isinstance(said, Reply) else parse_reply(said)
        except ValueError as error:
            raise final_error(
                f"the model function {self._name} has to return text, a reply or a response: {error}"
            ) from error
        model, usage = asked_model(request, self._name), estimate_usage(request.payload, reply)
        return render_response(self._dialect, reply, model=model, serial=next(self._serials), usage=usage)
