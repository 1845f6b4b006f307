"""Ray's door to the runner of a node: an actor without arguments, which Ray would keep, that ends with its node.

The runner lives in an event loop of its own. Ray's may be uvloop, in which starting processes is slow, and Ray does not
end our process when its node's daemon is killed: then we do, or what we started would run on.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version
from threading import Thread
from typing import Any

from seatrial.agents.api import ENTRY_POINTS as AGENTS
from seatrial.agents.api import make_agent, registered_name
from seatrial.backends.named import AUTO, make_backend
from seatrial.backends.named import ENTRY_POINTS as BACKENDS
from seatrial.errors import NodeUnfitError
from seatrial.images.choice import plan_named
from seatrial.jobs.machinery import open_machinery
from seatrial.jobs.preflight import PreflightPlan, preflight
from seatrial.jobs.ray.opening import unpack_trials
from seatrial.jobs.ray.runner import NodeTrials, Runner
from seatrial.jobs.ray.wire import RunnerSettings
from seatrial.model.job import TrialOptions
from seatrial.plugins import load_plugin, plugin_names
from seatrial.sandbox.runs import state_root
from seatrial.trial.events import Observer
from seatrial.trial.run import run_trial

_ALONE_SEC = 300.0  # without a word from the coordinator, which asks for news all the time
_LOOK_SEC = 10.0


class RunnerActor:
    """What Ray makes on a node: the runner there is called through it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._heard = time.monotonic()
        Thread(target=self._loop.run_forever, name="seatrial-runner", daemon=True).start()
        self._runner = asyncio.run_coroutine_threadsafe(self._begin(), self._loop).result()

    async def version(self) -> str:
        """Which Seatrial this is; asked before anything else."""
        return version("seatrial")

    async def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the runner."""
        self._heard = time.monotonic()
        work: Coroutine[Any, Any, Any] = getattr(self._runner, method)(*arguments)
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
        observe=tell,
        starting=settings.starting,
    ) as machinery:
        yield NodeTrials(
            await machinery.backend.probe(),
            lambda spec, folder, observe: run_trial(spec, machinery, folder, observe),
            lambda plan, observe: preflight(plan, machinery, observe),
        )


@asynccontextmanager
async def open_sent(text: str, backend: str) -> AsyncIterator[NodeTrials]:
    """What has arrived on this node, open for the length of a block. Raises UsageError and SandboxError."""
    trials = await asyncio.to_thread(unpack_trials, text)
    async with make_backend(backend) as tried:
        capabilities = await tried.probe()
    async with trials.open():
        yield NodeTrials(capabilities, trials.run, _nothing_to_try)


async def _nothing_to_try(_: PreflightPlan, __: Observer) -> None:
    """A program knows its own agents."""


# What a job needs of a node and is not sent there: plug-ins, and directories that stand for images.


def check_here(settings: RunnerSettings) -> None:
    """Raise NodeUnfitError that names what this node has not got, and UsageError for an agent that cannot be made."""
    if missing := list(_missing_plugins(settings)):
        raise NodeUnfitError(
            f"it has no {' and no '.join(missing)}; install the plug-in where that node's Ray runs, as it is installed "
            "here"
        )
    for folder in _folders(settings.trial):
        if not os.path.isdir(folder):  # noqa: PTH112 - a quick look
            raise NodeUnfitError(
                f"there is no directory {folder}, which the run names as an image; put it on a disk that all nodes "
                "share, or make an image of it with `seatrial images load` and name that"
            )
    for agent in settings.agents:
        if agent.files:  # they are not here yet, and making it may take them
            load_plugin(AGENTS, registered_name(agent))
        else:
            make_agent(agent)


def _missing_plugins(settings: RunnerSettings) -> Iterator[str]:
    backend = settings.trial.backend
    if backend != AUTO and backend not in plugin_names(BACKENDS):
        yield f"sandbox backend {backend!r}"
    for name in dict.fromkeys(registered_name(each) for each in settings.agents):
        if name not in plugin_names(AGENTS):
            yield f"agent {name!r}"
    for upstream in filter(None, (settings.model.upstream, settings.trial.verifier_upstream)):
        from seatrial.gateway.upstreams.open import missing_plugin  # noqa: PLC0415 - slow, and only needed with a model

        if missing := missing_plugin(upstream):
            yield f"upstream {missing!r}"


def _folders(options: TrialOptions) -> list[str]:
    """The directories that a run names as images."""
    named = [options.image] if options.image != "auto" else list(options.image_map.values())
    return [plan.name for plan in map(plan_named, named) if plan.kind == "directory"]
