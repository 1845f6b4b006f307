"""What passes through the gateway, and the Protocol of where it goes.

Requests and answers are passed on as they are: what is understood of them is for the record and for limits, and nothing
that is not understood is lost.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, runtime_checkable

from seatrial.gateway.agent_tools import PLAIN_TOOLS, AgentTools
from seatrial.gateway.bodies import Spooled
from seatrial.model.trace import Dialect


class ModelRequest(NamedTuple):
    """One request of an agent. `payload` is its JSON body, None when it has none; `dialect` is None on other paths.

    `spooled` is a large body in a file. To an upstream that `takes_files` it comes without `body`, and its `payload`
    has only short values. By `trial` an upstream that several trials share can tell them apart. `agent_tools` of
    a translated request say how calls go back to the agent.
    """

    path: str
    method: str = "POST"
    dialect: Dialect | None = None
    payload: dict[str, Any] | None = None
    body: bytes = b""
    headers: Mapping[str, str] = MappingProxyType({})
    stream: bool = False
    spooled: Spooled | None = None
    trial: int = 0
    agent_tools: AgentTools = PLAIN_TOOLS


class ModelReply(NamedTuple):
    """An answer on its way: its pieces come as they come from upstream. `whole` is all of it, if it is here already."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]
    whole: bytes | None = None


class Upstream(Protocol):
    """Answers model requests in the dialects it speaks."""

    @property
    def dialects(self) -> frozenset[Dialect]:
        """The dialects it understands; requests in others are translated."""
        ...

    def ask(self, request: ModelRequest) -> AbstractAsyncContextManager[ModelReply]:
        """An answer for the length of a block. Raises ProviderError when there is none to be had."""
        ...


@runtime_checkable
class SeenThrough(Protocol):
    """An upstream whose answers mean something even when the agent no longer waits for them.

    Whether it would have spoken tells an agent that did not wait from a model that did not answer.
    """

    seen_through: bool


@runtime_checkable
class Troubled(Protocol):
    """An upstream that can say why it has not answered yet."""

    def trouble(self, trial: int) -> str | None:
        """What went wrong with the latest attempt for a trial, None if nothing did."""
        ...


@runtime_checkable
class Answering(Protocol):
    """An upstream that can find out whether its model answers at all."""

    def is_stuck(self, trial: int) -> bool:
        """Whether a call of a trial has not got as far as its model's provider."""
        ...

    async def answers(self, request: ModelRequest) -> bool | None:
        """Whether its model answers a request, asked once; None if that cannot be tried. It may take without end."""
        ...


@runtime_checkable
class Keyed(Protocol):
    """An upstream that knows secrets."""

    secrets: Sequence[str]


@runtime_checkable
class FileTaker(Protocol):
    """An upstream that sends large bodies from their files, so that nobody has to keep them in memory meanwhile."""

    takes_files: bool
