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
        return tuple([trial for trial in self.trials if trial.outcome in SCORED and trial.reward is not None])

    @cached_property
    def rewards(self) -> dict[str, list[float]]:
        """The rewards of the scored trials, task by task."""
        return rewards_by_task(self.scored)

    @cached_property
    def attempts(self) -> dict[str, Attempts]:
        """How often each task was judged, and how often it passed."""
        passed = Counter([trial.task_id for trial in self.scored if trial.outcome == "pass"])
        return {task: (len(rewards), passed[task]) for task, rewards in self.rewards.items()}

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
    def settings(self) -> frozenset[tuple[str, str | None]]:
        """The tasks that were judged, each with every setting it was judged in."""
        return frozenset([(trial.task_id, trial.setting) for trial in self.scored])

    @cached_property
    def tests(self) -> dict[str, set[str]]:
        """By which tests each task was judged, as far as that is known."""
        found: dict[str, set[str]] = {}
        for task, tests in {(trial.task_id, trial.tests) for trial in self.scored}:
            if tests is not None:
                found.setdefault(task, set()).add(tests)
        return found

    @cached_property
    def is_regraded(self) -> bool:
        """Whether any of the scored trials was judged again."""
        return any(trial.revision for trial in self.scored)

    @cached_property
    def prices(self) -> tuple[str, ...]:
        """By which tables of prices costs were computed."""
        return tuple(sorted({trial.prices for trial in self.trials if trial.prices}))

    @cached_property
    def happened(self) -> dict[str, int]:
        """What may have moved rewards, and how many trials it happened to."""
        return {
            "trials without a verdict": len(self.trials) - len(self.scored),
            "trials with processes killed for memory": sum([trial.oom_kills > 0 for trial in self.trials]),
            "trials that took several tries": sum([trial.tries > 1 for trial in self.trials]),
            "trials judged again": sum([trial.revision > 0 for trial in self.trials]),
            "disputed verdicts": sum([trial.disputed_reward is not None for trial in self.trials]),
        }

    @cached_property
    def tally(self) -> Tally:
        """The trials, counted."""
        were_broken = frozenset(t.task_id for t in self.trials if (t.first_broken if t.revision else t.broken))
        return tally_trials([*self.trials], self.planned, frozenset(), were_broken)
