"""A job on a card: the little that a list of jobs says of each, small enough to keep of all of them."""

import datetime as dt
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from seatrial.analysis.loaded import LoadedJob
from seatrial.analysis.tally import OUTCOMES, Tally
from seatrial.model.record import Outcome
from seatrial.store.lock import holder_of

RunState = Literal["running", "finished", "interrupted"]
"""Of an `interrupted` job nobody carries out what is left."""


@dataclass(frozen=True, slots=True)
class JobCard:
    """A job and its agents. `uncounted` are folders in the place of trials that do not count."""

    folder: Path
    name: str
    created_at: dt.datetime
    tasks: int
    attempts: int
    agents: Mapping[str, Tally]
    uncounted: int

    @property
    def planned(self) -> int:
        """All trials that there are to be."""
        return sum(tally.planned for tally in self.agents.values())

    @property
    def finished(self) -> int:
        """Those that have a record."""
        return sum(tally.finished for tally in self.agents.values())

    @property
    def counts(self) -> dict[Outcome, int]:
        """How often each outcome occurred."""
        found: Counter[Outcome] = Counter()
        for tally in self.agents.values():
            found.update(tally.counts)
        return {outcome: found[outcome] for outcome in OUTCOMES if found[outcome]}


def card_of(job: LoadedJob) -> JobCard:
    """What a list says of a job."""
    file = job.file
    sizes = len(file.tasks), file.spec.attempts
    return JobCard(job.path, job.name, file.created_at, *sizes, job.summary.agents, len(job.uncounted))


def run_state(folder: Path, open_trials: int) -> RunState:
    """Whether a job is being carried out, is done, or was left with so many open trials."""
    if holder_of(folder) is not None:
        return "running"
    return "interrupted" if open_trials else "finished"
