"""What a job amounts to: outcome counts, a mean with its interval, and the denominators it rests on.

Only trials that were really judged are in a mean. A verifier that could not judge and a machine that failed say nothing
about an agent; they are counted beside it, so that a reader sees how much of what was planned a mean stands for.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, get_args

from seatrial.model.job import JobFile
from seatrial.model.record import Outcome
from seatrial.stats.intervals import wilson

SCORED: frozenset[Outcome] = frozenset({"pass", "partial", "fail", "no_output", "invalid_output"})
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


class Finished(Protocol):
    """What a summary needs to know of a finished trial."""

    @property
    def agent(self) -> str:
        """How the job calls the agent."""
        ...

    @property
    def outcome(self) -> Outcome:
        """What the trial amounts to."""
        ...

    @property
    def reward(self) -> float | None:
        """What its verifier gave, None when there is no evaluation."""
        ...


@dataclass(frozen=True, slots=True)
class Tally:
    """Trials counted together. `mean` and `interval` are over the scored ones, None when there are none."""

    planned: int
    counts: Mapping[Outcome, int]
    mean: float | None
    interval: tuple[float, float] | None

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
        """Trials the machinery failed at."""
        return self.counts.get("infrastructure_error", 0)

    @property
    def open(self) -> int:
        """Trials that were planned and have no record yet."""
        return max(0, self.planned - self.finished)

    @property
    def pass_rate(self) -> float | None:
        """The share of scored trials that passed, None when there are none."""
        return self.counts.get("pass", 0) / self.scored if self.scored else None


@dataclass(frozen=True, slots=True)
class JobSummary:
    """A job per agent, in the order of its spec, and as a whole."""

    agents: Mapping[str, Tally]
    total: Tally


def planned_trials(file: JobFile) -> dict[str, int]:
    """How many trials a job wants of each of its agents."""
    return {agent.title: len(file.tasks) * file.spec.attempts for agent in file.spec.agents}


def summarise(entries: Iterable[Finished], planned: Mapping[str, int]) -> JobSummary:
    """Count finished trials per agent; `planned` says how many there are to be. Agents not in it come last."""
    groups: dict[str, list[Finished]] = defaultdict(list)
    for entry in entries:
        groups[entry.agent].append(entry)
    names = [*planned, *sorted(set(groups).difference(planned))]
    agents = {name: _tally(groups.get(name, []), planned.get(name, 0)) for name in names}
    everything = [entry for group in groups.values() for entry in group]
    return JobSummary(agents, _tally(everything, sum(planned.values())))


def _tally(entries: list[Finished], planned: int) -> Tally:
    counts = Counter(entry.outcome for entry in entries)
    rewards = [entry.reward for entry in entries if entry.outcome in SCORED and entry.reward is not None]
    mean = math.fsum(rewards) / len(rewards) if rewards else None
    ordered = {outcome: counts[outcome] for outcome in OUTCOMES if counts[outcome]}
    return Tally(planned, ordered, mean, None if mean is None else wilson(mean, len(rewards)))


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
        "pass_rate": tally.pass_rate,
    }


def summary_json(summary: JobSummary) -> dict[str, Any]:
    """A summary as programs get it."""
    agents = {name: tally_json(tally) for name, tally in summary.agents.items()}
    return {"agents": agents, "total": tally_json(summary.total)}
