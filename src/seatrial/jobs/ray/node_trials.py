"""How a runner carries out trials on its node: by our own way, or by what a program has sent there."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

from seatrial.jobs.preflight import PreflightPlan
from seatrial.jobs.ray.wire import RunnerSettings
from seatrial.model.record import TrialRecord
from seatrial.sandbox.api import Capabilities
from seatrial.trial.events import Observer
from seatrial.trial.spec import TrialSpec

RunOne = Callable[[TrialSpec, Path, Observer], Awaitable[TrialRecord]]
"""Carries out one trial on this node, leaving its files in the folder."""

TryOut = Callable[[PreflightPlan, Observer], Awaitable[None]]
"""Tries agents out on this node. Raises PreflightError."""


@dataclass(frozen=True, slots=True)
class NodeTrials:
    """What a node needs to carry out trials, once it is open: what its sandboxes can do, and how to try and run one."""

    capabilities: Capabilities
    run: RunOne
    try_out: TryOut


OpenTrials = Callable[[RunnerSettings, Observer], AbstractAsyncContextManager[NodeTrials]]
"""Opens what all trials of this node share. Raises UsageError or TrialError where no trial can run."""
