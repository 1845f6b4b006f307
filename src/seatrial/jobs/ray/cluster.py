"""What the engine needs of a cluster: which nodes there are, and a way to a runner on each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from seatrial.jobs.ray.wire import Batch


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """A node that is alive; `name` is what people call it."""

    id: str
    name: str


class RunnerLink(Protocol):
    """The way to the runner of a node, whose methods it has.

    All raise NodeLostError when the runner is gone, and NodeUnreachableError when it does not answer just now.
    """

    async def lacks(self, needs: Sequence[bytes]) -> list[str]:
        """Which of some needed files are not on the node, by digest."""
        ...

    async def receive(self, digest: str, offset: int, piece: bytes) -> str | None:
        """Take a piece of an archive; returns what went wrong."""
        ...

    async def complete(self, need: bytes) -> str | None:
        """Unpack what has arrived; returns what went wrong."""
        ...

    async def settle(self, settings: bytes) -> bytes:
        """Open what trials need; returns the NodeReport."""
        ...

    async def try_out(self, plan: bytes) -> str | None:
        """Try agents out; returns what cannot work."""
        ...

    async def start(self, lease: str, spec: bytes) -> None:
        """Begin a trial."""
        ...

    async def news(self, seen: int) -> Batch:
        """What has happened."""
        ...

    async def held(self) -> list[str]:
        """The leases that it has."""
        ...

    async def piece(self, lease: str, offset: int) -> bytes:
        """A piece of what a trial left."""
        ...

    async def drop(self, lease: str) -> None:
        """Forget a lease."""
        ...

    async def close(self) -> None:
        """End the runner, and all that it runs."""
        ...


class Cluster(Protocol):
    """Some machines."""

    async def nodes(self) -> Sequence[ClusterNode]:
        """Those that are alive now."""
        ...

    async def connect(self, node: ClusterNode) -> RunnerLink:
        """A new runner on a node. Raises NodeUnfitError where none can be, NodeLostError when the node is gone."""
        ...
