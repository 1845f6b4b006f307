"""A cluster in this process: real runners, whose nodes can be killed, cut off, unfit or late."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from seatrial.concurrency import unless
from seatrial.errors import HostUnsupportedError, NodeLostError, NodeUnfitError, NodeUnreachableError, PreflightError
from seatrial.jobs.preflight import PreflightPlan
from seatrial.jobs.ray.cluster import ClusterNode, RunnerLink
from seatrial.jobs.ray.runner import NodeImages, NodeTrials, Runner
from seatrial.jobs.ray.wire import Batch, RunnerSettings
from seatrial.sandbox.api import Capabilities
from seatrial.trial.events import Observer
from tests.jobs.samples import FakeTrials, RunTrial

T = TypeVar("T")

STATE = Literal["there", "cut off", "frozen", "dead"]


@dataclass(eq=False)
class FakeNode:
    """A machine: `run` is what its trials come to; `unfit` and `no_sandbox` say why it cannot run any.

    Its images are in a store of its own, or in `cache`.
    """

    name: str
    state_folder: Path
    run: RunTrial = field(default_factory=FakeTrials)
    unfit: str | None = None
    no_sandbox: str | None = None
    no_preflight: str | None = None
    backend: str = "null"
    cache: Path | None = None
    state: STATE = "there"
    settings: RunnerSettings | None = None
    calls: list[str] = field(default_factory=list)
    received: Counter[str] = field(default_factory=Counter)
    runners: list[Runner] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def becomes(self, state: STATE) -> None:
        """Cut it off, bring it back, or kill its runner."""
        self.state = state
        self.changed.set()
        self.changed = asyncio.Event()

    @asynccontextmanager
    async def open_trials(self, settings: RunnerSettings, _: Observer) -> AsyncIterator[NodeTrials]:
        self.settings = settings
        if self.no_sandbox:
            raise HostUnsupportedError(self.no_sandbox)
        yield NodeTrials(Capabilities(self.backend, "none", "fake"), self.run, self._try_out)

    async def _try_out(self, plan: PreflightPlan, _: Observer) -> None:
        if self.no_preflight:
            raise PreflightError(f"{self.no_preflight}: {sorted(plan.agents)}")


class FakeLink:
    """The way to a runner, as long as its node is there."""

    def __init__(self, node: FakeNode, runner: Runner) -> None:
        self._node = node
        self._runner = runner

    async def _ask(self, name: str, work: Coroutine[Any, Any, T]) -> T:
        self._node.calls.append(name)
        await self._hang(work)
        if self._node.state != "there" or self._runner is not self._node.runners[-1]:
            work.close()
            raise self._trouble()
        answer = await unless(self._node.changed, work)
        await self._hang(work)
        if self._node.state != "there":
            raise self._trouble()
        return answer  # type: ignore[return-value]

    async def _hang(self, work: Coroutine[Any, Any, Any]) -> None:
        if self._node.state == "frozen":
            work.close()
            await asyncio.Event().wait()

    def _trouble(self) -> NodeLostError:
        return NodeUnreachableError("no answer") if self._node.state == "cut off" else NodeLostError("it was killed")

    async def lacks(self, needs: Sequence[bytes]) -> list[str]:
        return await self._ask("lacks", self._runner.lacks(needs))

    async def receive(self, digest: str, offset: int, piece: bytes) -> str | None:
        self._node.received[digest] += len(piece)
        return await self._ask("receive", self._runner.receive(digest, offset, piece))

    async def complete(self, need: bytes) -> str | None:
        return await self._ask("complete", self._runner.complete(need))

    async def settle(self, settings: bytes) -> bytes:
        return await self._ask("settle", self._runner.settle(settings))

    async def try_out(self, plan: bytes) -> str | None:
        return await self._ask("try_out", self._runner.try_out(plan))

    async def start(self, lease: str, spec: bytes) -> None:
        return await self._ask("start", self._runner.start(lease, spec))

    async def news(self, seen: int) -> Batch:
        return await self._ask("news", self._runner.news(seen))

    async def held(self) -> list[str]:
        return await self._ask("held", self._runner.held())

    async def piece(self, lease: str, offset: int) -> bytes:
        return await self._ask("piece", self._runner.piece(lease, offset))

    async def drop(self, lease: str) -> None:
        return await self._ask("drop", self._runner.drop(lease))

    async def close(self) -> None:
        if self._node.state != "there":
            raise self._trouble()
        await self._runner.close()


class FakeCluster:
    """Some nodes, to which others may be added."""

    def __init__(self, *nodes: FakeNode) -> None:
        self.members = list(nodes)

    async def nodes(self) -> Sequence[ClusterNode]:
        return [ClusterNode(f"id-{node.name}", node.name) for node in self.members]

    async def connect(self, node: ClusterNode) -> RunnerLink:
        found = next((each for each in self.members if each.name == node.name), None)
        if found is None:
            raise NodeLostError("it is gone")
        if found.unfit:
            raise NodeUnfitError(found.unfit)
        images = NodeImages(found.cache or found.state_folder / "cache")
        runner = Runner(found.state_folder, found.open_trials, images)
        found.runners.append(runner)
        found.state = "there"
        return FakeLink(found, runner)

    async def close(self) -> None:
        """End the runners that nobody ends: those that were killed."""
        for node in self.members:
            for runner in node.runners:
                await runner.close()
