"""What is noted about a call while it is under way, and the line of calls.jsonl that it becomes when it has ended."""

from collections.abc import Callable
from datetime import UTC, datetime
from time import perf_counter
from typing import Any, cast

import orjson

from seatrial.errors import ModelSilentError, ProviderError
from seatrial.gateway.api import ModelRequest, Spooled
from seatrial.gateway.base import EndedCall, ToldReason
from seatrial.gateway.budget import Amount
from seatrial.gateway.dialects import DIALECTS, model_path, with_one_model
from seatrial.gateway.dialects.base import Dialect, with_path
from seatrial.gateway.prices import cost
from seatrial.gateway.session import Session
from seatrial.model.trace import CallErrorKind, DialectName, EndedBy

_LONGEST_MESSAGE = 4000
_ENDED_BY: dict[CallErrorKind, EndedBy] = {"agent": "us", "provider": "provider", "budget": "budget"}

_WHO_LEFT = {"agent": "the agent hung up", "us": "the agent's time was over, or its trial was ended,"}


class CallNotes:
    """Filled in as a call goes on, from its beginning to `call`, which ends it."""

    __slots__ = (
        "_call",
        "_payload",
        "_request",
        "_response",
        "_session",
        "_spoken",
        "_started",
        "fault",
        "finished",
        "held",
        "is_complete",
        "wait",
    )

    def __init__(self, session: Session, request: ModelRequest, index: int, retry_of: int | None) -> None:
        self._session = session
        self._request = request
        self._payload = request.payload or {}
        self._spoken = request.dialect
        self._response: Any = None
        self.fault: str | None = None
        """What is wrong with what has come of an answer."""
        self.finished = False
        """Whether the whole answer came."""
        self.is_complete: Callable[[], bool] = _not_yet
        """Whether all that matters of the answer has come, while it comes."""
        self.held: Amount | None = None
        """What is set aside for the call."""
        self.wait = session.waits.begin(self._goes_on)
        self._call: EndedCall = {
            "index": index,
            "path": request.path,
            "started_at": datetime.now(UTC),
            "duration_sec": 0.0,
            "stream": request.stream,
            "messages": [],
        }
        self._started = perf_counter()
        if retry_of is not None:
            self._call["retry_of"] = retry_of

    def asked(self, payload: dict[str, Any]) -> None:
        """What is really asked for, in the agent's dialect."""
        self._payload = payload

    def left_out(self, omitted: tuple[str, ...]) -> None:
        """What was left out of the request: other models, or what another dialect has no place for."""
        if omitted and (new := self._session.omissions.first_seen(omitted)):
            self._call["omitted"] = (*self._call.get("omitted", ()), *new)

    def lighten(self, request: ModelRequest) -> None:
        """Keep only this of a large request; the rest is read again from its file when the call has ended."""
        self._request = request
        self._payload = request.payload or {}

    def token_came(self) -> None:
        if "first_token_sec" not in self._call:
            self._call["first_token_sec"] = perf_counter() - self._started

    def still_waiting(self) -> None:
        """Only a keep-alive has arrived. Raises ModelSilentError when there has been nothing else for too long."""
        silent, most = self.wait.silent_sec(), self._session.limits.keep_alive_sec
        if silent > most:
            raise ModelSilentError(
                f"the provider sent nothing but keep-alives for {silent:.0f} s (the limit is {most:g} s)"
            )

    def answered(self, status: int, spoken: DialectName | None, response: Any) -> None:
        """The answer, in the upstream's dialect."""
        self._call["status"] = status
        self._spoken = spoken
        self._response = response

    def failed(self, kind: CallErrorKind, status: int | None, message: str, by: EndedBy | None = None) -> None:
        """Why there is no answer, or only a part of one, and who ended the call. The first reason counts."""
        if "error" not in self._call:
            reason: ToldReason = {
                "kind": kind,
                "message": message[:_LONGEST_MESSAGE],
                "ended_by": by or _ENDED_BY[kind],
                "silent_sec": self.wait.silent_sec(),
            }
            self._call["error"] = reason if status is None else {**reason, "status": status}

    def _goes_on(self) -> bool:
        """Nobody may hear the rest of the answer. What was heard in part is not asked for again for nothing."""
        if self.wait.heard_at is not None:
            return not self.is_complete()
        self._session.left(self._call["index"], self._request)
        return True

    def hung_up(self) -> None:
        """Nobody waits for the answer any more. One who has heard nonsense until then has not failed by hanging up."""
        if self.fault is not None:
            self._session.fail(ProviderError(self.fault))
            self.failed("provider", None, self.fault, "agent")
        elif self.finished:  # some, like Codex, hang up at the last word
            return
        by = self.wait.left_by or ("us" if self._session.waits.closed else "agent")
        trouble = self._session.trouble()
        said = f"; {trouble}" if trouble and self.wait.heard_at is None else ""
        self.failed("disconnected", None, f"{_WHO_LEFT[by]} before the answer was complete{said}", by)

    def call(self) -> EndedCall:
        """The call as it is kept, with all its messages, when it has ended."""
        call, request, payload = self._call, self._request, self._payload
        call["duration_sec"] = perf_counter() - self._started
        self._session.waits.end(self.wait, answered="error" not in call)
        if request.spooled is not None and "status" not in call:
            # What no model has seen costs an agent nothing, and would fill the disk.
            call["request"] = {"not_kept": f"{request.spooled.size:,} bytes that no model has answered"}
        elif request.dialect is not None:
            payload = payload if request.spooled is None else self._asked_again(request.dialect, request.spooled)
            dialect = DIALECTS[request.dialect]
            call["dialect"] = request.dialect
            call["messages"] = dialect.messages(payload)
            call["request"] = dialect.without_messages(payload)
        if request.payload and isinstance(model := request.payload.get("model"), str):
            call["model"] = model
        if isinstance(model := payload.get("model"), str):
            call["upstream_model"] = model
        if isinstance(self._response, dict):
            call["response"] = self._response
            if self._spoken is not None:
                self._add_what_it_says(DIALECTS[self._spoken], self._response)
        return call

    def _asked_again(self, dialect: DialectName, spooled: Spooled) -> dict[str, Any]:
        options, payload = self._session.options, orjson.loads(spooled.load())
        if (found := model_path(self._request.path)) is not None:
            payload = with_path(payload, found[1])
        model = self._session.model_for(payload.get("model"))
        if model is None and not options.sampling:
            return cast(dict[str, Any], payload)
        if model is not None:
            payload, _ = with_one_model(payload)
        return DIALECTS[dialect].with_overrides(payload, model, options.sampling)

    def _add_what_it_says(self, spoken: Dialect, response: dict[str, Any]) -> None:
        call = self._call
        if (reason := spoken.finish_reason(response)) is not None:
            call["finish_reason"] = reason
        if (counts := spoken.counts(response)) is not None:
            call["usage"] = counts
            if (price := self._session.price_of(call.get("upstream_model"))) is not None:
                call["cost_usd"] = cost(price, counts)


def _not_yet() -> bool:
    return False
