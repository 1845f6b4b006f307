"""Ray's door to the runner of a node: an actor without arguments, which Ray would keep, that ends with its node.

The runner lives in an event loop of its own. Ray's may be uvloop, in which starting processes is slow, and Ray does not
end our process when its node's daemon is killed: then we do, or what we started would run on.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version
from threading import Thread
from typing import Any, TypeVar

from seatrial.jobs.machinery import open_machinery
from seatrial.jobs.preflight import preflight
from seatrial.jobs.ray.node_check import check_here
from seatrial.jobs.ray.node_trials import NodeTrials
from seatrial.jobs.ray.runner import Runner
from seatrial.jobs.ray.sending import open_sent
from seatrial.jobs.ray.wire import Batch, RunnerSettings
from seatrial.sandbox.runs import state_root
from seatrial.trial.events import Notice, Observer
from seatrial.trial.run import run_trial

T = TypeVar("T")

_ALONE_SEC = 300.0  # without a word from the coordinator, which asks for news all the time
_LOOK_SEC = 10.0


class RunnerActor:
    """What Ray makes on a node. Its methods are those of Runner."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._heard = time.monotonic()
        Thread(target=self._loop.run_forever, name="seatrial-runner", daemon=True).start()
        self._runner = asyncio.run_coroutine_threadsafe(self._begin(), self._loop).result()

    async def version(self) -> str:
        """Which Seatrial this is; asked before anything else."""
        return version("seatrial")

    async def lacks(self, needs: Sequence[bytes]) -> list[str]:
        """See Runner."""
        return await self._do(self._runner.lacks(needs))

    async def receive(self, digest: str, offset: int, piece: bytes) -> str | None:
        """See Runner."""
        return await self._do(self._runner.receive(digest, offset, piece))

    async def complete(self, need: bytes) -> str | None:
        """See Runner."""
        return await self._do(self._runner.complete(need))

    async def settle(self, settings: bytes) -> bytes:
        """See Runner."""
        return await self._do(self._runner.settle(settings))

    async def try_out(self, plan: bytes) -> str | None:
        """See Runner."""
        return await self._do(self._runner.try_out(plan))

    async def start(self, lease: str, spec: bytes) -> None:
        """See Runner."""
        await self._do(self._runner.start(lease, spec))

    async def news(self, seen: int) -> Batch:
        """See Runner."""
        return await self._do(self._runner.news(seen))

    async def held(self) -> list[str]:
        """See Runner."""
        return await self._do(self._runner.held())

    async def piece(self, lease: str, offset: int) -> bytes:
        """See Runner."""
        return await self._do(self._runner.piece(lease, offset))

    async def drop(self, lease: str) -> None:
        """See Runner."""
        await self._do(self._runner.drop(lease))

    async def close(self) -> None:
        """See Runner."""
        await self._do(self._runner.close())

    async def _do(self, work: Coroutine[Any, Any, T]) -> T:
        self._heard = time.monotonic()
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def _begin(self) -> Runner:
        runner = Runner(state_root() / "node", open_trials)
        self._guard = asyncio.create_task(self._end_when_alone(runner, os.getppid()))
        return runner

    async def _end_when_alone(self, runner: Runner, parent: int) -> None:
        gone = asyncio.Event()
        with suppress(OSError):  # a kernel that cannot: then it is noticed a little later
            self._loop.add_reader(os.pidfd_open(parent), gone.set)
        while os.getppid() == parent and not gone.is_set() and time.monotonic() - self._heard < _ALONE_SEC:
            try:
                async with asyncio.timeout(_LOOK_SEC):
                    await gone.wait()
            except TimeoutError:
                continue
        try:
            await runner.end("the node has died" if os.getppid() != parent else "the coordinator did not ask for long")
        finally:
            os._exit(1)


@asynccontextmanager
async def open_trials(settings: RunnerSettings, tell: Observer) -> AsyncIterator[NodeTrials]:
    """What trials of this node share. The process is ours alone, so the run's variables become its own."""
    os.environ.update(settings.variables)
    await asyncio.to_thread(check_here, settings)
    if settings.sent is not None:
        async with open_sent(settings.sent, settings.trial.backend) as sent:
            yield sent
        return
    async with open_machinery(
        settings.trial.backend,
        settings.trial,
        settings.model,
        say=lambda line: tell(Notice(line)),
        starting=settings.starting,
    ) as machinery:
        yield NodeTrials(
            await machinery.backend.probe(),
            lambda spec, folder, observe: run_trial(spec, machinery, folder, observe),
            lambda plan, observe: preflight(plan, machinery, observe),
        )
