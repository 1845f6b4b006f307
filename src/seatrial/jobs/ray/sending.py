"""Trials that are carried out by something a program brings along, such as an environment: sent to nodes, pickled.

Classes of the program itself go by value. What it imports has to be installed on the nodes.
"""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from seatrial.backends.named import make_backend
from seatrial.errors import UsageError
from seatrial.jobs.engine import PortableTrials
from seatrial.jobs.preflight import PreflightPlan
from seatrial.jobs.ray.node_trials import NodeTrials
from seatrial.jobs.ray.pool_options import Fetch
from seatrial.jobs.ray.start import import_ray
from seatrial.sandbox.scratch import Scratch
from seatrial.trial.events import Observer


def pack_trials(trials: PortableTrials) -> str:
    """What is sent to nodes. Raises UsageError for what cannot be."""
    pickle = import_ray().cloudpickle
    modules = list(trials.modules)
    for module in modules:
        pickle.register_pickle_by_value(module)
    try:
        packed = pickle.dumps(trials)
    except UsageError:
        raise
    except Exception as error:  # anybody's classes may fail in any way
        raise UsageError(f"this cannot be sent to other machines: {type(error).__name__}: {error}") from error
    finally:
        for module in modules:
            pickle.unregister_pickle_by_value(module)
    return base64.b64encode(packed).decode()


def unpack_trials(text: str) -> PortableTrials:
    """What has arrived on a node. Raises UsageError when something that it needs is not there."""
    try:
        return cast(PortableTrials, import_ray().cloudpickle.loads(base64.b64decode(text)))
    except Exception as error:
        raise UsageError(
            f"what carries out the trials cannot be loaded there: {type(error).__name__}: {error}; install what it "
            "imports where that node's Ray runs"
        ) from error


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


async def forget_late(_: str, fetch: Fetch) -> None:
    """Take a late result off its node: the rollout has been made again."""
    with Scratch() as folder:
        await fetch(folder)
