"""One trial, from a task to a record."""

from pathlib import Path

from seatrial.model.record import TrialRecord
from seatrial.sandbox.api import SandboxBackend
from seatrial.trial.events import Observer, unobserved
from seatrial.trial.spec import TrialSpec


async def run_trial(
    spec: TrialSpec, backend: SandboxBackend, folder: Path, observe: Observer = unobserved
) -> TrialRecord:
    """Run one trial; logs and files go into `folder`. A failure of the machinery is a record too; only cancellation,
    and errors that are nobody's but the programmer's, come out as exceptions.
    """
    raise NotImplementedError
