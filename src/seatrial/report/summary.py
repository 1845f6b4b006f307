"""What a job amounts to: outcome counts, a mean with its interval, and the denominators it rests on.

Only trials that were really judged are in a mean. A verifier that could not judge and a machine that failed say nothing
about an agent; they are counted beside it, so that a reader sees how much of what was planned a mean stands for.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, get_args

from seatrial.jobs.plan import LeftOutCount, count_left_out
from seatrial.model.job import JobFile
from seatrial.model.record import SCORED_OUTCOMES, Outcome
from seatrial.report.finished import Finished
from seatrial.stats.intervals import wilson

_VARYING = re.compile(r"[0-9a-f]{8,}|\d+")

SCORED = SCORED_OUTCOMES
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


@dataclass(frozen=True, slots=True)
class UsageTotal:
    """What the models of several trials used. There is a cost only if that of every call is known.

    `prices` are the tables by which costs were computed; there may be several in a job that was resumed.
    """

    trials: int
    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    prices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tally:
    """Trials counted together. `mean` and `interval` are over the scored ones, None when there are none.

    `believed_mean` is the mean if all `disputed` verdicts were believed. In `curated` trials the verifier did not meet
    everything as the agent left it. `warnings` counts trials by the codes they are tagged with. `regraded` trials were
    judged again, and `first_mean` is the mean of all by the verdicts when they ran; None where none was.
    `usage` is over all that have a record, judged or not, since all of them are paid for; None when none had a model.
    """

    planned: int
    counts: Mapping[Outcome, int]
    mean: float | None
    interval: tuple[float, float] | None
    usage: UsageTotal | None = None
    disputed: int = 0
    believed_mean: float | None = None
    curated: int = 0
    warnings: Mapping[str, int] = field(default_factory=dict)
    regraded: int = 0
    first_mean: float | None = None

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
        """The share of scored trials that passed, None when there are none."""
        return self.counts.get("pass", 0) / self.scored if self.scored else None


@dataclass(frozen=True, slots=True)
class FailureCount:
    """How many trials could not be run for one reason, and the first of them."""

    reason: str
    trials: int
    example: str


@dataclass(frozen=True, slots=True)
class JobSummary:
    """A job per agent, in the order of its spec, and as a whole; `left_out` are chosen tasks without trials.

    `broken_tasks` are those of which no trial counts, because their verifier has no verdict on anything untouched.
    `failures` say why trials could not be run, the most frequent reason first.
    """

    agents: Mapping[str, Tally]
    total: Tally
    left_out: tuple[LeftOutCount, ...] = ()
    broken_tasks: tuple[str, ...] = ()
    failures: tuple[FailureCount, ...] = ()


def alike(text: str) -> str:
    """What is the same in two messages that differ only in numbers and in random names."""
    return _VARYING.sub("#", text)


def planned_trials(file: JobFile) -> dict[str, int]:
    """How many trials a job wants of each of its agents: of every task but those that are left out for it."""
    without = Counter(entry.agent for entry in file.left_out)
    tasks, attempts = len(file.tasks), file.spec.attempts
    return {agent.title: (tasks - without[agent.title]) * attempts for agent in file.spec.agents}


def summarise_job(entries: Iterable[Finished], file: JobFile) -> JobSummary:
    """Count the finished trials of a stored job, and what it has no trials of."""
    summary = summarise(entries, planned_trials(file))
    return replace(summary, left_out=count_left_out(file.left_out))


def summarise(entries: Iterable[Finished], planned: Mapping[str, int]) -> JobSummary:
    """Count finished trials per agent; `planned` says how many there are to be. Agents not in it come last.

    A verifier without a verdict on what nobody has touched has none for anybody: no trial of its task is scored, also
    none that it was content with.
    """
    groups: dict[str, list[Finished]] = defaultdict(list)
    for entry in entries:
        groups[entry.agent].append(entry)
    names = [*planned, *sorted(set(groups).difference(planned))]
    everything = [entry for group in groups.values() for entry in group]
    broken = frozenset(entry.task_id for entry in everything if entry.broken)
    were = frozenset(entry.task_id for entry in everything if _first_broken(entry))
    agents = {name: _tally(groups.get(name, []), planned.get(name, 0), broken, were) for name in names}
    total = _tally(everything, sum(planned.values()), broken, were)
    return JobSummary(agents, total, broken_tasks=tuple(sorted(broken)), failures=count_failures(everything))


def count_failures(entries: Iterable[Finished]) -> tuple[FailureCount, ...]:
    """Why trials could not be run; reasons that differ only in numbers and random names count as one."""
    groups: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for entry in entries:
        if entry.failure is not None and entry.outcome == "infrastructure_error":
            groups[alike(entry.failure)].append((entry.failure, entry.trial_id))
    counts = [FailureCount(group[0][0], len(group), group[0][1]) for group in groups.values()]
    return tuple(sorted(counts, key=lambda count: -count.trials))


def _tally(entries: list[Finished], planned: int, broken: Collection[str], were_broken: Collection[str]) -> Tally:
    counts = Counter(_counted(entry, broken) for entry in entries)
    scored = [entry for entry in entries if _counted(entry, broken) in SCORED and entry.reward is not None]
    rewards = [entry.reward for entry in scored if entry.reward is not None]
    mean = math.fsum(rewards) / len(rewards) if rewards else None
    ordered = {outcome: counts[outcome] for outcome in OUTCOMES if counts[outcome]}
    interval = None if mean is None else wilson(mean, len(rewards))
    curated = sum(entry.put_back > 0 for entry in entries)
    warnings = Counter(code for entry in entries for code in entry.warnings)
    usage, again = _total_usage(entries), _regraded(entries, were_broken)
    return Tally(planned, ordered, mean, interval, usage, *_disputes(scored), curated, dict(warnings), *again)


def _regraded(entries: list[Finished], broken: Collection[str]) -> tuple[int, float | None]:
    """How many trials were judged again, and the mean by the verdicts that all of them had when they ran."""
    regraded = sum(entry.revision > 0 for entry in entries)
    if not regraded:
        return 0, None
    verdicts = [
        (
            entry.task_id,
            *((entry.first_outcome, entry.first_reward) if entry.revision else (entry.outcome, entry.reward)),
        )
        for entry in entries
    ]
    scored = (reward for task, outcome, reward in verdicts if outcome in SCORED and task not in broken)
    rewards = [reward for reward in scored if reward is not None]
    return regraded, math.fsum(rewards) / len(rewards) if rewards else None


def _first_broken(entry: Finished) -> bool:
    return entry.first_broken if entry.revision else entry.broken


def _counted(entry: Finished, broken: Collection[str]) -> Outcome:
    """What a trial counts as."""
    return "verifier_error" if entry.outcome in SCORED and entry.task_id in broken else entry.outcome


def _disputes(scored: list[Finished]) -> tuple[int, float | None]:
    disputed = sum(entry.disputed_reward is not None for entry in scored)
    believed = [entry.reward if entry.disputed_reward is None else entry.disputed_reward for entry in scored]
    mean = math.fsum(filter(None, believed)) / len(believed) if disputed else None
    return disputed, mean


def _total_usage(entries: list[Finished]) -> UsageTotal | None:
    users = [entry for entry in entries if entry.model_calls is not None]
    if not users:
        return None
    costs = [entry.cost_usd for entry in users if entry.model_calls]
    known = [cost for cost in costs if cost is not None]
    return UsageTotal(
        trials=len(users),
        calls=sum(entry.model_calls or 0 for entry in users),
        input_tokens=sum(entry.input_tokens or 0 for entry in users),
        output_tokens=sum(entry.output_tokens or 0 for entry in users),
        cost_usd=math.fsum(known) if len(known) == len(costs) else None,
        prices=tuple(sorted({entry.prices for entry in users if entry.prices})),
    )


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
        "usage": asdict(tally.usage) if tally.usage else None,
        "disputed": tally.disputed,
        "believed_mean": tally.believed_mean,
        "curated": tally.curated,
        "warnings": dict(tally.warnings),
        "regraded": tally.regraded,
        "first_mean": tally.first_mean,
    }


def summary_json(summary: JobSummary) -> dict[str, Any]:
    """A summary as programs get it."""
    agents = {name: tally_json(tally) for name, tally in summary.agents.items()}
    left_out = [asdict(count) for count in summary.left_out]
    found = {"agents": agents, "total": tally_json(summary.total), "left_out": left_out}
    failures = [asdict(count) for count in summary.failures]
    return {**found, "broken_tasks": list(summary.broken_tasks), "failures": failures}
