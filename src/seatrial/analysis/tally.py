"""Trials counted together: how they ended, their mean over tasks, and every denominator that it rests on.

Only trials that were really judged are in a mean. A verifier that could not judge and a machine that failed say nothing
about an agent; they are counted beside it, so that a reader sees how much of what was planned a mean stands for.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, get_args

from seatrial.analysis.finished import Finished
from seatrial.analysis.gathered import SCORED as SCORED  # noqa: PLC0414 - what a tally counts
from seatrial.analysis.gathered import Gathered, UsageTotal, by_task, gather
from seatrial.model.record import Outcome
from seatrial.stats.estimates import Estimate, estimate_mean

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


@dataclass(frozen=True, slots=True)
class Tally:
    """Trials counted together. `estimate` is the mean over tasks of the scored ones, `pass_estimate` that of the share
    which passed; None when there are none.

    `trial_mean` gives each scored trial the same weight, and differs where tasks have not equally many.
    `mean_if_failed` is the mean over all tasks if everything without a verdict was a 0.
    `believed_mean` is the mean if all `disputed` verdicts were believed. In `curated` trials the verifier did not meet
    everything as the agent left it. `warnings` counts trials by the codes they are tagged with. `regraded` trials were
    judged again, and `first_mean` is the mean of all by the verdicts when they ran; None where none was.
    `usage` is over all that have a record, judged or not, since all of them are paid for; None when none had a model.
    """

    planned: int
    counts: Mapping[Outcome, int]
    estimate: Estimate | None
    trial_mean: float | None = None
    mean_if_failed: float | None = None
    usage: UsageTotal | None = None
    disputed: int = 0
    believed_mean: float | None = None
    curated: int = 0
    warnings: Mapping[str, int] = field(default_factory=dict)
    regraded: int = 0
    first_mean: float | None = None
    pass_estimate: Estimate | None = None

    @property
    def mean(self) -> float | None:
        """The mean over tasks of the means of their scored trials, None when there are none."""
        return self.estimate.value if self.estimate else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Where that mean lies with 95 % confidence."""
        return (self.estimate.low, self.estimate.high) if self.estimate else None

    @property
    def finished(self) -> int:
        """Trials with a record."""
        return sum(self.counts.values())

    @property
    def scored(self) -> int:
        """Trials that were judged: the denominator of the mean and of the pass rate."""
        return sum(count for outcome, count in self.counts.items() if outcome in SCORED)

    @property
    def invalid(self) -> int:
        """Trials whose verifier could not judge."""
        return self.counts.get("verifier_error", 0)

    @property
    def infrastructure(self) -> int:
        """Trials that could not be run to a verdict, through no fault of the agent."""
        return self.counts.get("infrastructure_error", 0)

    @property
    def open(self) -> int:
        """Trials that were planned and have no record yet."""
        return max(0, self.planned - self.finished)

    @property
    def pass_rate(self) -> float | None:
        """The mean over tasks of the shares of scored trials that passed, None when there are none."""
        return self.pass_estimate.value if self.pass_estimate else None

    @property
    def pass_interval(self) -> tuple[float, float] | None:
        """Where that share lies with 95 % confidence."""
        return (self.pass_estimate.low, self.pass_estimate.high) if self.pass_estimate else None


def tally_trials(entries: list[Finished], planned: int, broken: Collection[str], were_broken: Collection[str]) -> Tally:
    """Count trials; `broken` are the tasks of which no trial counts, `were_broken` those of which none did at first."""
    return tally_of(gather(entries, broken), planned, were_broken)


def tally_of(found: Gathered, planned: int, were_broken: Collection[str]) -> Tally:
    """Count trials that were gathered."""
    rewards, scored = found.rewards, len(found.scored)
    every = math.fsum(reward for each in rewards.values() for reward in each)
    passes = [[1.0] * found.passed[task] + [0.0] * (len(each) - found.passed[task]) for task, each in rewards.items()]
    disputed, believed_mean = _disputes(found.scored)
    regraded, first_mean = _regraded(found.entries, were_broken)
    return Tally(
        planned=planned,
        counts={outcome: found.outcomes[outcome] for outcome in OUTCOMES if found.outcomes[outcome]},
        estimate=estimate_mean([*rewards.values()]),
        trial_mean=every / scored if scored else None,
        mean_if_failed=_mean_if_failed(found),
        usage=found.usage,
        disputed=disputed,
        believed_mean=believed_mean,
        curated=found.curated,
        warnings=dict(found.warnings),
        regraded=regraded,
        first_mean=first_mean,
        pass_estimate=estimate_mean(passes),
    )


def _mean(rewards: Iterable[tuple[str, float | None]]) -> float | None:
    """The mean over tasks, None when there is nothing."""
    means = [math.fsum(each) / len(each) for each in by_task(rewards).values()]
    return math.fsum(means) / len(means) if means else None


def _mean_if_failed(found: Gathered) -> float | None:
    """The mean over tasks if whatever has no verdict has failed, None when there is nothing."""
    means = [math.fsum(found.rewards.get(task, ())) / count for task, count in found.trials.items()]
    return math.fsum(means) / len(means) if means else None


def _regraded(entries: list[Finished], broken: Collection[str]) -> tuple[int, float | None]:
    """How many trials were judged again, and the mean by the verdicts that all of them had when they ran."""
    regraded = sum(1 for entry in entries if entry.revision)
    if not regraded:
        return 0, None
    verdicts = [
        (
            entry.task_id,
            *((entry.first_outcome, entry.first_reward) if entry.revision else (entry.outcome, entry.reward)),
        )
        for entry in entries
    ]
    return regraded, _mean(
        (task, reward) for task, outcome, reward in verdicts if outcome in SCORED and task not in broken
    )


def _disputes(scored: list[Finished]) -> tuple[int, float | None]:
    disputed = sum(1 for entry in scored if entry.disputed_reward is not None)
    if not disputed:
        return 0, None
    believed = (
        (each.task_id, each.reward if each.disputed_reward is None else each.disputed_reward) for each in scored
    )
    return disputed, _mean(believed)


def tally_json(tally: Tally) -> dict[str, Any]:
    """A tally as programs get it: every number and every denominator."""
    return {
        "planned": tally.planned,
        "finished": tally.finished,
        "scored": tally.scored,
        "invalid": tally.invalid,
        "infrastructure": tally.infrastructure,
        "open": tally.open,
        "outcomes": dict(tally.counts),
        "mean": tally.mean,
        "interval": tally.interval,
        "level": tally.estimate.level if tally.estimate else None,
        "tasks": tally.estimate.groups if tally.estimate else 0,
        "effective": tally.estimate.effective if tally.estimate else None,
        "trial_mean": tally.trial_mean,
        "mean_if_failed": tally.mean_if_failed,
        "pass_rate": tally.pass_rate,
        "pass_interval": tally.pass_interval,
        "usage": asdict(tally.usage) if tally.usage else None,
        "disputed": tally.disputed,
        "believed_mean": tally.believed_mean,
        "curated": tally.curated,
        "warnings": dict(tally.warnings),
        "regraded": tally.regraded,
        "first_mean": tally.first_mean,
    }
