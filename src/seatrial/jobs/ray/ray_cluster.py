"""Ray as a cluster: its nodes, and an actor on each as the runner. What Ray raises becomes ours here."""

import asyncio
import re
from collections.abc import Awaitable, Sequence
from importlib.metadata import version
from typing import Any, TypeVar, cast

import ray
from ray.exceptions import ActorUnavailableError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from seatrial.errors import NodeLostError, NodeUnfitError, NodeUnreachableError, SandboxError
from seatrial.jobs.ray.actor import RunnerActor
from seatrial.jobs.ray.cluster import ClusterNode, RunnerLink
from seatrial.jobs.ray.wire import Batch

T = TypeVar("T")

_START_SEC = 120.0
_BECAUSE = re.compile(r"actor (?:is dead|died) because ([^.\n]+)")
_AT_ONCE = 10_000  # calls that a runner answers at the same time; most wait for news


class RayCluster:
    """The cluster that this process is connected to."""

    async def nodes(self) -> Sequence[ClusterNode]:
        found = await asyncio.to_thread(ray.nodes)
        return [ClusterNode(each["NodeID"], _name(each)) for each in found if each["Alive"]]

    async def connect(self, node: ClusterNode) -> RunnerLink:
        """A new runner on a node. Raises NodeUnfitError without our version there, NodeLostError."""
        there = NodeAffinitySchedulingStrategy(node.id, soft=False)
        options = {"max_restarts": 0, "max_task_retries": 0, "max_concurrency": _AT_ONCE}
        actor: Any = ray.remote(RunnerActor).options(num_cpus=0, scheduling_strategy=there, **options).remote()
        try:
            _check_version(await _in_time(actor.version.remote()))
        except SandboxError:
            _check_version(await _installed(there))
            raise
        return RayLink(actor)


def _name(node: dict[str, Any]) -> str:
    """A name for people; several nodes may be on one machine."""
    return f"{node['NodeManagerHostname']}-{node['NodeID'][:6]}"


async def _installed(there: NodeAffinitySchedulingStrategy) -> str | None:
    """Our version on a node, where no runner starts: asked by a function of the standard library, which all have."""
    ask = ray.remote(version).options(num_cpus=0, scheduling_strategy=there, max_retries=0)
    try:
        return str(await _in_time(ask.remote("seatrial")))
    except NodeLostError:
        raise
    except SandboxError:
        return None


def _check_version(found: str | None) -> None:
    own = version("seatrial")
    if found != own:
        has = f"Seatrial {found}, and this is {own}" if found else "no Seatrial"
        raise NodeUnfitError(f"it has {has}; where that node's Ray runs: pip install 'seatrial[ray]=={own}'")


async def _in_time(reference: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout(_START_SEC):
            return await _answer(reference)
    except TimeoutError:
        raise NodeLostError(f"it started no process in {_START_SEC:g} s") from None


async def _answer(reference: Awaitable[T]) -> T:
    try:
        return await reference
    except RayTaskError as error:
        raise SandboxError(str(error.cause)) from None
    except ActorUnavailableError as error:
        raise NodeUnreachableError(shortly(str(error))) from None
    except RayError as error:
        raise NodeLostError(shortly(str(error))) from None


def shortly(text: str) -> str:
    """What Ray says of a runner that is gone, without its page about it."""
    if "creation task" in text:
        return f"our process there failed: {text.strip().splitlines()[-1].strip()}"
    if found := _BECAUSE.search(text):
        return found[1].replace("its worker process", "our process there").replace("its node", "the node")
    return text.partition("\n")[0].rstrip(".")


class RayLink:
    """The way to the runner behind an actor, which is ended with it. See RunnerLink."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def lacks(self, needs: Sequence[bytes]) -> list[str]:
        return cast("list[str]", await self._call("lacks", needs))

    async def receive(self, digest: str, offset: int, piece: bytes) -> str | None:
        return cast("str | None", await self._call("receive", digest, offset, piece))

    async def complete(self, need: bytes) -> str | None:
        return cast("str | None", await self._call("complete", need))

    async def settle(self, settings: bytes) -> bytes:
        return cast("bytes", await self._call("settle", settings))

    async def try_out(self, plan: bytes) -> str | None:
        return cast("str | None", await self._call("try_out", plan))

    async def start(self, lease: str, spec: bytes) -> None:
        await self._call("start", lease, spec)

    async def news(self, seen: int) -> Batch:
        return cast("Batch", await self._call("news", seen))

    async def held(self) -> list[str]:
        return cast("list[str]", await self._call("held"))

    async def piece(self, lease: str, offset: int) -> bytes:
        return cast("bytes", await self._call("piece", lease, offset))

    async def drop(self, lease: str) -> None:
        await self._call("drop", lease)

    async def close(self) -> None:
        try:
            await self._call("close")
        finally:
            ray.kill(self._actor)

    async def _call(self, method: str, *arguments: Any) -> Any:
        return await _answer(self._actor.call.remote(method, *arguments))
