"""A viewer that is asked over HTTP, and jobs on a disk for it to show."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from seatrial.model.job import AgentOptions
from seatrial.store.job_store import JobStore
from seatrial.view.access import ViewSettings
from seatrial.view.app import make_app
from tests.jobs.samples import evaluation, job_file, record

TOKEN = "t0ken"  # noqa: S105 - of viewers that live for one test
BEARER = {"Authorization": f"Bearer {TOKEN}"}
Client = TestClient[web.Request, web.Application]


def settings_for(*folders: Path, **more: Any) -> ViewSettings:
    return ViewSettings(folders, **{"token": TOKEN, **more})


@asynccontextmanager
async def viewer(settings: ViewSettings, headers: Mapping[str, str] = BEARER) -> AsyncIterator[Client]:
    """A viewer, and a client that brings its token along unless it is told otherwise."""
    async with TestClient(TestServer(make_app(settings)), headers=headers) as client:
        yield client


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """A viewer in a thread of its own, and its address."""
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event, int]] = Future()

    async def serve() -> None:
        runner, stop = web.AppRunner(make_app(settings_for(folder))), asyncio.Event()
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        started.set_result((asyncio.get_running_loop(), stop, runner.addresses[0][1]))
        await stop.wait()
        await runner.cleanup()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    loop, stop, port = started.result(timeout=30)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()


def stored_job(
    folder: Path, rewards: Mapping[str, Sequence[float]], agents: Sequence[str] = ("noop",), **spec: Any
) -> JobStore:
    """A job with a trial for each reward of a task, by each agent. The agents are as good as each other."""
    attempts = max(1, *map(len, rewards.values()))
    named = tuple(AgentOptions(name=name) for name in agents)
    store = JobStore.create(folder, job_file([*rewards], **{"agents": named, "attempts": attempts, **spec}))
    for task, each in rewards.items():
        for attempt, reward in enumerate(each, start=1):
            for agent in agents:
                finish_trial(store, task, attempt, agent=agent, reward=reward)
    return store


def finish_trial(store: JobStore, task: str, attempt: int = 1, *, agent: str = "noop", **more: Any) -> str:
    """Add a trial to a job; returns its id."""
    reward = more.pop("reward", 1.0)
    made = record(task, attempt, agent=agent, **{"evaluation": evaluation(reward), "job": store.file.spec.name, **more})
    with store.draft(made.trial_id) as draft:
        draft.commit(made)
    return made.trial_id
