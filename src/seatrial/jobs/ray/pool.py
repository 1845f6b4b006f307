"""The nodes of a cluster as places for trials: those that are there, those that come and go, and what each is told.

A node that cannot run trials is named once, with the reason, and gets none. One that is lost gets a new runner when it
is still there; its trials are started again by the job, elsewhere if that can be.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from seatrial.concurrency import finish, first_error
from seatrial.errors import (
    HostUnsupportedError,
    ImageError,
    NodeLostError,
    NodeUnfitError,
    PreflightError,
    SandboxError,
    StoreError,
    TrialError,
)
from seatrial.jobs.places import TrialPlace, memory_of
from seatrial.jobs.preflight import PreflightPlan
from seatrial.jobs.ray.cluster import Cluster, ClusterNode
from seatrial.jobs.ray.delivery import Seat, Seats
from seatrial.jobs.ray.offered_images import OfferedImages
from seatrial.jobs.ray.remote_node import LateResult, NodeNews, NodeOutcome, RemoteNode
from seatrial.jobs.ray.wire import Lease, NodeReport, RunnerSettings, write_plan
from seatrial.model.events import Notice
from seatrial.model.record import TrialRecord
from seatrial.trial.events import Observer
from seatrial.trial.spec import TrialSpec

Fetch = Callable[[Path], Awaitable[TrialRecord]]
"""Brings what a trial left into a folder, and its record."""

KeepLate = Callable[[str, Fetch], Coroutine[Any, Any, None]]
"""Keeps a result that nobody waits for any more, of the trial of that id."""

CheckNode = Callable[[NodeReport], None]
"""Raises HostUnsupportedError for a node that cannot do what the trials of a run ask for."""


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """What a pool is told: the settings of its runners, which nodes will do, and what to do with late results.

    Without any node for `longest_wait_sec`, it gives up. `images` are somebody else's to close.
    """

    settings: RunnerSettings
    check: CheckNode
    keep_late: KeepLate
    tell: Observer
    longest_wait_sec: float = 600.0
    images: OfferedImages = field(default_factory=OfferedImages)


# The pool.

LOOK_SEC = 2.0
"""How often to look which nodes there are."""

_LONGEST_PAUSE_SEC = 30.0
_CLOSING_SEC = 30.0
_MOST_FAILURES = 4
_LEAST_AT_ONCE = 1000


@dataclass(eq=False, slots=True)
class NodePool:
    """Places on the nodes of a cluster. Made by `open_pool`."""

    cluster: Cluster
    options: PoolOptions
    unfit: dict[str, str] = field(default_factory=dict)
    _seats: Seats = field(default_factory=Seats)
    _nodes: dict[str, RemoteNode] = field(default_factory=dict)
    _alive: dict[str, ClusterNode] = field(default_factory=dict)
    _carers: "dict[str, asyncio.Task[None]]" = field(default_factory=dict)
    _undecided: set[str] = field(default_factory=set)
    _decided: asyncio.Event = field(default_factory=asyncio.Event)
    _numbers: "count[int]" = field(default_factory=lambda: count(1))
    _group: asyncio.TaskGroup = field(default_factory=asyncio.TaskGroup)
    _last_seen: float = field(default_factory=time.monotonic)

    @property
    def slots(self) -> int:
        """How many trials can run at once on the nodes that are there now."""
        return sum(node.report.slots for node in self._nodes.values() if node.report) or 1

    @property
    def at_once(self) -> int:
        """How many trials may run or wait for a place at once: enough that nodes which come later find some waiting."""
        return self.options.settings.slots or max(_LEAST_AT_ONCE, 4 * self.slots)

    @property
    def reports(self) -> dict[str, NodeReport]:
        """What the nodes that run trials are, by name."""
        return {node.name: node.report for node in self._nodes.values() if node.report}

    @asynccontextmanager
    async def place(self, spec: TrialSpec, avoid: frozenset[str]) -> AsyncIterator[TrialPlace]:
        """A seat on a node that has room, as soon as there is one. Raises NodeLostError without nodes for too long."""
        seat = await self._seats.take(memory_of(spec.task, spec.options), avoid)
        lease = Lease(spec.trial_id, next(self._numbers))
        remote = self._nodes[seat.node]
        try:
            yield TrialPlace(partial(remote.run, lease), remote.name)
        finally:
            if str(lease) in remote.ghosts:
                remote.ghosts[str(lease)] = seat
            else:
                self._seats.give_back(seat)

    async def try_out(self, plan: PreflightPlan) -> None:
        """Try agents out on a node. Raises PreflightError that says what cannot work."""
        node = next(iter(self._nodes.values()), None)
        if node is None:
            return
        try:
            for specs in plan.agents.values():
                for spec in specs:
                    await node.supply(spec)
            reason = await node.link.try_out(write_plan(plan))
        except (SandboxError, ImageError) as error:
            self.options.tell(Notice(f"agents could not be tried out: {error}; their trials start anyway"))
            return
        if reason:
            raise PreflightError(reason)

    async def ready(self) -> None:
        """Return when a node can run trials. Raises HostUnsupportedError that says of each why it cannot."""
        await self._decided.wait()
        if not self._nodes:
            reasons = [f"  {name}: {reason}" for name, reason in self.unfit.items()]
            raise HostUnsupportedError("\n".join(["no node of the cluster can run these trials:", *reasons]))

    async def live(self, closing: asyncio.Event) -> None:
        """Look after the nodes until it is closed. When that fails, nobody waits for them any longer."""
        try:
            async with self._group:
                while not closing.is_set():
                    await self._look()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(LOOK_SEC):
                            await closing.wait()
                await self._close()
        except BaseExceptionGroup as errors:
            raise first_error(errors) from None
        finally:
            self._give_up(NodeLostError("the cluster is no longer looked after"))

    async def _look(self) -> None:
        self._alive = {node.id: node for node in await self.cluster.nodes()}
        for node_id, node in self._alive.items():
            if node_id not in self._carers:
                self._undecided.add(node_id)
                self._carers[node_id] = self._group.create_task(self._care_for(node))
        for node_id in [each for each in self._carers if each not in self._alive]:
            if self._carers[node_id].done():
                del self._carers[node_id]
        if self._nodes:
            self._last_seen = time.monotonic()
        elif self._decided.is_set() and time.monotonic() - self._last_seen > self.options.longest_wait_sec:
            self._give_up(NodeLostError(f"no node could run trials for {self.options.longest_wait_sec:g} s"))

    async def _care_for(self, node: ClusterNode) -> None:
        """Have a runner on a node as long as it is there."""
        failed, pause = 0, 0.0
        while node.id in self._alive:
            await asyncio.sleep(pause)
            pause = min(max(2 * pause, 1.0), _LONGEST_PAUSE_SEC)
            try:
                remote = await self._connect(node)
            except NodeUnfitError as error:
                self._refuse(node, str(error))
                return
            except SandboxError as error:
                failed += 1
                if failed == _MOST_FAILURES:
                    self._refuse(node, f"its runner failed {failed} times: {error}")
                    return
                continue
            failed, pause = 0, 0.0
            self._decide(node)
            await self._listen(remote)
        self._decide(node)

    async def _connect(self, node: ClusterNode) -> RemoteNode:
        remote = RemoteNode(node, await self.cluster.connect(node), self.options.tell, self._hear, self.options.images)
        await remote.deliver(self.options.settings.files)
        report = await remote.settle(self._shared_settings())
        try:
            self.options.check(report)
        except HostUnsupportedError as error:
            await remote.link.close()
            raise NodeUnfitError(str(error)) from None
        self._nodes[node.name] = remote
        self._seats.add(node.name, report.slots, report.memory_mb)
        return remote

    def _shared_settings(self) -> RunnerSettings:
        """The settings of one runner. What is limited for the whole run, the nodes that are there share evenly.

        Otherwise the first one that is ready would take it all.
        """
        settings = self.options.settings
        if settings.slots is None:
            return settings
        share = -(-settings.slots // max(1, len(self._alive)))
        return settings.model_copy(update={"slots": share})

    async def _listen(self, remote: RemoteNode) -> None:
        try:
            await remote.listen()
        except NodeLostError as error:
            self._say(f"node {remote.name} was lost: {error}")
            self._forget(remote)
            remote.lose(error)

    def _forget(self, remote: RemoteNode) -> None:
        if self._nodes.get(remote.name) is remote:
            del self._nodes[remote.name]
            self._seats.remove(remote.name)

    def _refuse(self, node: ClusterNode, reason: str) -> None:
        self.unfit[node.name] = reason
        self._say(f"node {node.name} gets no trials: {reason}")
        self._decide(node)

    def _decide(self, node: ClusterNode) -> None:
        self._undecided.discard(node.id)
        if self._nodes or not self._undecided:
            self._decided.set()

    def _hear(self, remote: RemoteNode, news: NodeNews) -> None:
        match news:
            case "gone":
                self._forget(remote)
            case "cut off" | "short of room":
                self._seats.rest(remote.name)
            case "back again" | "room again":
                self._seats.wake(remote.name)
            case Seat():
                self._seats.give_back(news)
            case LateResult():
                if news.seat:
                    self._seats.give_back(news.seat)
                self._group.create_task(self._keep(remote, news.outcome))

    async def _keep(self, remote: RemoteNode, outcome: NodeOutcome) -> None:
        """Keep what a trial left that was started again elsewhere meanwhile."""
        trial_id = outcome.ended.lease.partition(".")[2]
        try:
            await self.options.keep_late(trial_id, lambda folder: remote.fetch(outcome, folder))
        except (TrialError, StoreError, OSError) as error:
            self._say(f"a late result of {trial_id} from node {remote.name} could not be kept: {error}")

    def _give_up(self, error: NodeLostError) -> None:
        self._seats.fail(error)
        for remote in self._nodes.values():
            remote.lose(error)

    def _say(self, text: str) -> None:
        self.options.tell(Notice(text))

    async def _close(self) -> None:
        for carer in self._carers.values():
            carer.cancel()
        async with asyncio.TaskGroup() as group:
            for remote in self._nodes.values():
                group.create_task(_closed(remote))


@asynccontextmanager
async def open_pool(cluster: Cluster, options: PoolOptions) -> AsyncIterator[NodePool]:
    """Runners on all fit nodes of a cluster, for the length of a block.

    Raises HostUnsupportedError when no node is fit; says of each why.
    """
    pool, closing = NodePool(cluster, options), asyncio.Event()
    life = asyncio.ensure_future(pool.live(closing))
    try:
        await _unless_failed(life, pool.ready())
        yield pool
    finally:
        closing.set()
        await finish(asyncio.wait((life,)))
    life.result()


async def _closed(remote: RemoteNode) -> None:
    with suppress(TimeoutError, NodeLostError):
        async with asyncio.timeout(_CLOSING_SEC):
            await remote.link.close()


async def _unless_failed(life: "asyncio.Future[None]", ready: Coroutine[Any, Any, None]) -> None:
    waiting = asyncio.ensure_future(ready)
    await asyncio.wait((life, waiting), return_when=asyncio.FIRST_COMPLETED)
    if not waiting.done():
        waiting.cancel()
        life.result()
    waiting.result()
