"""What the tests of pools share: a pool on a fake cluster, and trials that can be held."""

import asyncio
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from seatrial.jobs.ray.pool import PoolOptions, open_pool
from seatrial.jobs.ray.wire import RunnerSettings
from seatrial.model.events import Notice
from seatrial.model.job import ModelOptions, TrialOptions
from tests.jobs.ray.fake_cluster import FakeCluster, FakeNode
from tests.jobs.samples import Watcher, record_for

NOWHERE: frozenset[str] = frozenset()


class Pool:
    """What a test has: a cluster, its pool, what was told, and the late results that were kept."""

    def __init__(self, folder: Path, *nodes: FakeNode) -> None:
        self.cluster = FakeCluster(*nodes)
        self.told = Watcher()
        self.slots = 2 * max(1, len(nodes))
        self.late: asyncio.Queue[Any] = asyncio.Queue()
        self._folder = folder
        self._count = 0

    def new_folder(self) -> Path:
        self._count += 1
        folder = self._folder / f"draft-{self._count}"
        folder.mkdir(parents=True)
        return folder

    async def _keep(self, trial_id, fetch):
        folder = self.new_folder()
        self.late.put_nowait((trial_id, await fetch(folder), folder))

    @asynccontextmanager
    async def open(self, **changes):
        settings = RunnerSettings(trial=TrialOptions(), model=ModelOptions(), slots=self.slots)
        options = PoolOptions(**{"settings": settings, "check": lambda _: None, **changes}, **self._usual())
        try:
            async with asyncio.timeout(60), open_pool(self.cluster, options) as self.pool:
                yield self.pool
        finally:
            await self.cluster.close()

    def _usual(self):
        return {"keep_late": self._keep, "tell": self.told}

    async def run(self, spec, avoid=NOWHERE, observe=lambda _: None):
        """Carry out a trial; returns its node, record and folder."""
        folder = self.new_folder()
        async with self.pool.place(spec, avoid) as place:
            return place.node, await place.run(spec, folder, observe), folder

    @property
    def notices(self) -> list[str]:
        return [notice.text for notice in self.told.of(Notice)]


async def until(come_true: Callable[[], bool]) -> None:
    while not come_true():  # noqa: ASYNC110 - what happens in a pool has no event for every test
        await asyncio.sleep(0)


def holding():
    """Trials that go on until they are told, and say when they begin."""
    began, go_on = asyncio.Event(), asyncio.Event()

    async def run(spec, folder: Path, _):
        (folder / "log.txt").write_text("here\n")
        began.set()
        await go_on.wait()
        return record_for(spec)

    return run, began, go_on
