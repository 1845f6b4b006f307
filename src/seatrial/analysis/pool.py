"""Trials that are counted together, whatever they have in common: an agent of a job, a category of tasks, a model."""

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property

from seatrial.analysis.gathered import rewards_by_task
from seatrial.analysis.tally import SCORED, Tally, tally_trials
from seatrial.stats.attempts import Attempts
from seatrial.store.index import TrialEntry


@dataclass(frozen=True)
class Pool:
    """Finished trials, and how many of their kind are planned. Their outcomes are what they count as."""

    planned: int
    trials: tuple[TrialEntry, ...]

    @cached_property
    def scored(self) -> tuple[TrialEntry, ...]:
        """The trials that were judged."""
        return tuple(trial for trial in self.trials if trial.outcome in SCORED and trial.reward is not None)

    @cached_property
    def rewards(self) -> dict[str, list[float]]:
        """The rewards of the scored trials, task by task."""
        return rewards_by_task(self.scored)

    @cached_property
    def attempts(self) -> dict[str, Attempts]:
        """How often each task was judged, and how often it passed."""
        judged = Counter(trial.task_id for trial in self.scored)
        passed = Counter(trial.task_id for trial in self.scored if trial.outcome == "pass")
        return {task: (count, passed[task]) for task, count in judged.items()}

    @cached_property
    def by_task(self) -> dict[str, list[TrialEntry]]:
        """The scored trials, task by task."""
        found: dict[str, list[TrialEntry]] = defaultdict(list)
        for trial in self.scored:
            found[trial.task_id].append(trial)
        return found

    @cached_property
    def dimensions(self) -> dict[str, dict[str, float]]:
        """The mean share that verifiers gave of each part of their breakdown, task by task."""
        shares: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for trial in self.scored:
            for name, share in trial.dimensions.items():
                shares[name][trial.task_id].append(share)
        return {
            name: {task: math.fsum(each) / len(each) for task, each in tasks.items()} for name, tasks in shares.items()
        }

    @cached_property
    def tally(self) -> Tally:
        """The trials, counted."""
        were_broken = frozenset(t.task_id for t in self.trials if (t.first_broken if t.revision else t.broken))
        return tally_trials([*self.trials], self.planned, frozenset(), were_broken)
