"""What a pool of nodes is told by the engine that opens it."""

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seatrial.jobs.ray.offered_images import OfferedImages
from seatrial.jobs.ray.wire import NodeReport, RunnerSettings
from seatrial.model.record import TrialRecord
from seatrial.trial.events import Observer

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
