"""What is noted about a call while it is under way, and what becomes of it when it has ended."""

import datetime as dt
import time
from typing import Any

from seatrial.gateway.api import ModelRequest
from seatrial.gateway.dialects import DIALECTS
from seatrial.gateway.ended import EndedCall
from seatrial.gateway.session import Session
from seatrial.model.trace import CallError, CallErrorKind, Dialect

_LONGEST_MESSAGE = 4000


class CallNotes:
    """Filled in as a call goes on."""

    __slots__ = (
        *("_error", "_first_token", "_index", "_payload", "_request", "_response", "_retry_of", "_session", "_spoken"),
        *("_started", "_started_at", "_status"),
    )

    def __init__(self, session: Session, request: ModelRequest, index: int, retry_of: int | None) -> None:
        self._session = session
        self._request = request
        self._index = index
        self._retry_of = retry_of
        self._started_at = dt.datetime.now(dt.UTC)
        self._started = time.perf_counter()
        self._first_token: float | None = None
        self._status: int | None = None
        self._spoken: Dialect | None = request.dialect
        self._payload: dict[str, Any] = request.payload if isinstance(request.payload, dict) else {}
        self._response: Any = None
        self._error: CallError | None = None

    def asked(self, payload: dict[str, Any]) -> None:
        """What is really asked for, in the agent's dialect."""
        self._payload = payload

    def token_came(self) -> None:
        """Something of the answer itself has arrived."""
        if self._first_token is None:
            self._first_token = time.perf_counter() - self._started

    def answered(self, status: int, spoken: Dialect | None, response: Any) -> None:
        """The answer, in the upstream's dialect."""
        self._status, self._spoken, self._response = status, spoken, response

    def failed(self, kind: CallErrorKind, status: int | None, message: str) -> None:
        """Why there is no answer, or only a part of one. The first reason counts."""
        self._error = self._error or CallError(kind=kind, status=status, message=message[:_LONGEST_MESSAGE])

    def call(self) -> EndedCall:
        """The call as it is kept, with all its messages."""
        request, payload = self._request, self._payload
        dialect = DIALECTS[request.dialect] if request.dialect else None
        spoken = DIALECTS[self._spoken] if self._spoken else None
        response = self._response if isinstance(self._response, dict) else None
        usage = spoken.usage(response) if spoken and response else None
        upstream_model = _text(payload.get("model"))
        return {
            "index": self._index,
            "dialect": request.dialect,
            "path": request.path,
            "started_at": self._started_at,
            "duration_sec": time.perf_counter() - self._started,
            "first_token_sec": self._first_token,
            "stream": request.stream,
            "model": _text(request.payload.get("model")) if request.payload else None,
            "upstream_model": upstream_model,
            "messages": dialect.messages(payload) if dialect else [],
            "request": dialect.without_messages(payload) if dialect else None,
            "response": response,
            "status": self._status,
            "finish_reason": spoken.finish_reason(response) if spoken and response else None,
            "usage": usage,
            "cost_usd": self._session.cost_of(upstream_model, usage),
            "retry_of": self._retry_of,
            "error": self._error,
        }


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
