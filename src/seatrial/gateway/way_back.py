"""The way back to an agent, and what goes there instead of an answer."""

from typing import NamedTuple, Protocol

import orjson

from seatrial.gateway.api import ModelRequest
from seatrial.gateway.dialects import DIALECTS
from seatrial.gateway.notes import CallNotes
from seatrial.gateway.session import Session
from seatrial.gateway.sse import encode_event
from seatrial.model.trace import CallErrorKind, Dialect

JSON = {"content-type": "application/json"}
# Both official SDKs obey it: what would fail again need not be tried again.
FINAL = {**JSON, "x-should-retry": "false"}


class Way(Protocol):
    """The way back to the agent. Raises ConnectionError when nobody is there any more."""

    @property
    def begun(self) -> bool:
        """Whether the answer's status is out already."""
        ...

    async def begin(self, status: int, headers: dict[str, str]) -> None:
        """Send status and headers."""
        ...

    async def write(self, data: bytes) -> None:
        """Send a piece of the answer."""
        ...

    async def answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        """Send an answer as a whole, at once."""
        ...


class CallRefusal(NamedTuple):
    """What the agent is told instead of an answer."""

    status: int
    kind: CallErrorKind
    message: str


async def refuse(way: Way, notes: CallNotes, dialect: Dialect, refusal: CallRefusal) -> None:
    """Tell the agent of an error as a provider would; in the middle of a stream as an event of it."""
    status, kind, message = refusal
    notes.failed(kind, status, message)
    speaker = DIALECTS[dialect]
    if way.begun:
        event = speaker.error_event(status, kind, message)
        await way.write(encode_event(event))
        return
    await way.answer(status, FINAL, orjson.dumps(speaker.error_body(status, kind, message)))


async def afforded(session: Session, outgoing: ModelRequest, notes: CallNotes) -> ModelRequest | CallRefusal:
    """The request, once there is room for it in the trial's budget."""
    if (reason := session.unpriced(outgoing)) is not None:
        return CallRefusal(400, "agent", reason)
    notes.held = await session.hold(outgoing)
    reason = session.budget.refusal()  # others may have used it up meanwhile
    return outgoing if reason is None else CallRefusal(429, "budget", reason)
