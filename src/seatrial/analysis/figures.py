"""From trials to figures: every mean, pass rate, pass@k and count of Seatrial is made here.

`Trials` is a selection of finished trials, `figures_of` makes their `Figures`. The mean is over tasks: the attempts at
a task are averaged first. Only trials that were really judged are in a mean. A verifier that could not judge and a
machine that failed say nothing about an agent; they are counted beside the mean. The command that runs a job imports
this module, so it loads neither numpy nor scipy.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import chain
from operator import attrgetter
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, get_args

from seatrial.model.outcome import SCORED_OUTCOMES, Outcome, format_mean
from seatrial.stats.corrected import FAILED, CorrectedMean, Possible, corrected_mean, known
from seatrial.stats.estimates import (
    Attempts,
    Estimate,
    Stability,
    estimate_mean,
    estimate_pass_all_k,
    estimate_pass_at_k,
    stability,
)

if TYPE_CHECKING:
    from seatrial.store.index import TrialEntry

SCORED = SCORED_OUTCOMES
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

# Asked of each of up to 100,000 trials: a getter takes half as long as the same in a loop.
_OUTCOME, _TASK, _PUT_BACK, _WARNINGS, _UNHELD = map(
    attrgetter, ("outcome", "task_id", "put_back", "warnings", "unheld")
)
_TASK_AND_REWARD = attrgetter("task_id", "reward")
_USED = attrgetter("model_calls", "input_tokens", "output_tokens", "cost_usd", "prices")
_JUDGED = attrgetter(*(f"verifier_{name}" for name in ("calls", "input_tokens", "output_tokens", "cost_usd", "prices")))


@dataclass(frozen=True, slots=True)
class UsageTotal:
    """What the models of several trials used."""

    trials: int
    calls: int
    """Those of trials that tell them; imported ones may tell only their tokens."""
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    """None unless the cost of every call is known."""
    prices: tuple[str, ...] = ()
    """The tables by which costs were computed; there may be several in a job that was resumed."""


@dataclass(frozen=True, slots=True)
class Times:
    """How long trials took, in seconds: half of them at most `median`, nine of ten at most `p90`."""

    median: float
    p90: float
    total: float


@dataclass(frozen=True, eq=False)
class Trials:
    """Finished trials that are counted together: those of an agent, of a category of tasks, of an evaluation."""

    entries: Sequence["TrialEntry"]
    """With the outcomes that they count as: see `as_counted`."""
    planned: int
    """How many trials of their kind there are to be."""
    first_broken: frozenset[str] | None = None
    """Tasks of which no trial counted before a regrade; None for those that these trials show."""

    @cached_property
    def scored(self) -> tuple["TrialEntry", ...]:
        """The trials that were judged."""
        return tuple([trial for trial in self.entries if trial.outcome in SCORED and trial.reward is not None])

    @cached_property
    def rewards(self) -> dict[str, list[float]]:
        """The rewards of the scored trials, task by task."""
        return _by_task(map(_TASK_AND_REWARD, self.scored))

    @cached_property
    def task_means(self) -> dict[str, float]:
        """The mean of the scored trials of each task."""
        return {task: fmean(rewards) for task, rewards in self.rewards.items()}

    @cached_property
    def attempts(self) -> dict[str, Attempts]:
        """How often each task was judged, and how often it passed."""
        passed = Counter([trial.task_id for trial in self.scored if trial.outcome == "pass"])
        return {task: (len(rewards), passed[task]) for task, rewards in self.rewards.items()}

    @cached_property
    def by_task(self) -> dict[str, list["TrialEntry"]]:
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
        return {name: {task: fmean(each) for task, each in tasks.items()} for name, tasks in shares.items()}

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
        return tuple(sorted({trial.prices for trial in self.entries if trial.prices}))

    @cached_property
    def happened(self) -> dict[str, int]:
        """What may have moved rewards, and how many trials it happened to."""
        return {
            "trials without a verdict": len(self.entries) - len(self.scored),
            "trials with processes killed for memory": sum([trial.oom_kills > 0 for trial in self.entries]),
            "trials that took several tries": sum([trial.tries > 1 for trial in self.entries]),
            "trials judged again": sum([trial.revision > 0 for trial in self.entries]),
            "disputed verdicts": sum([trial.disputed_reward is not None for trial in self.entries]),
        }

    @cached_property
    def usage(self) -> UsageTotal | None:
        """What the models of all used, judged or not, since all of them are paid for; None when none had a model."""
        return _total_of(map(_USED, self.entries))

    @property
    def verifier_usage(self) -> UsageTotal | None:
        """What the models of their verifiers used; None when no verifier had one."""
        return _total_of(map(_JUDGED, self.entries))


def _total_of(each_used: Iterable[tuple[Any, ...]]) -> UsageTotal | None:
    used = [each for each in each_used if each[1] is not None]
    if not used:
        return None
    calls, told, said, spent, prices = zip(*used, strict=True)
    costs = [cost for cost, count in zip(spent, calls, strict=True) if count != 0]
    known_costs = [cost for cost in costs if cost is not None]
    return UsageTotal(
        trials=len(used),
        calls=sum(filter(None, calls)),
        input_tokens=sum(filter(None, told)),
        output_tokens=sum(filter(None, said)),
        cost_usd=math.fsum(known_costs) if len(known_costs) == len(costs) else None,
        prices=tuple(sorted(filter(None, {*prices}))),
    )


@dataclass(frozen=True, slots=True)
class Figures:
    """What trials amount to, with every denominator. What is None cannot be said, such as a mean of no scored trial."""

    planned: int
    counts: Mapping[Outcome, int]
    """How many trials had each outcome, without those that none had."""
    mean: float | None
    """The mean reward: over tasks, of the means of their scored trials."""
    estimate: Estimate | None
    """That mean with its interval; None also where a reward is not between 0 and 1, as environments may give."""
    pass_estimate: Estimate | None
    """The share of scored trials that passed: over tasks, like the mean."""
    pass_at: Mapping[int, Estimate]
    """pass@k for each k that some task has enough attempts for."""
    pass_all: Mapping[int, Estimate]
    stability: Stability
    times: Times | None
    trial_mean: float | None = None
    """Each scored trial has the same weight, so this differs from `mean` where tasks have not equally many."""
    mean_if_failed: float | None = None
    """The mean over all tasks if everything without a verdict was a 0."""
    usage: UsageTotal | None = None
    verifier_usage: UsageTotal | None = None
    disputed: int = 0
    believed_mean: float | None = None
    """The mean if all disputed verdicts were believed; None where there is none."""
    curated: int = 0
    """Trials whose verifier did not meet everything as the agent left it."""
    warnings: Mapping[str, int] = field(default_factory=dict)
    """How many trials are tagged with each code."""
    unheld: Mapping[str, int] = field(default_factory=dict)
    """In how many trials each limit was asked for and not enforced."""
    regraded: int = 0
    first_mean: float | None = None
    """The mean of all by the verdicts when they ran; None where none was judged again."""

    @property
    def interval(self) -> tuple[float, float] | None:
        """Where the mean lies with the confidence asked for, 95 % as a rule."""
        return (self.estimate.low, self.estimate.high) if self.estimate else None

    @property
    def pass_rate(self) -> float | None:
        """The mean over tasks of the shares of scored trials that passed."""
        return self.pass_estimate.value if self.pass_estimate else None

    @property
    def pass_interval(self) -> tuple[float, float] | None:
        """Where that share lies with the same confidence."""
        return (self.pass_estimate.low, self.pass_estimate.high) if self.pass_estimate else None

    @property
    def finished(self) -> int:
        """Trials with a record."""
        return sum(self.counts.values())

    @property
    def scored(self) -> int:
        """Trials that were judged: the denominator of the mean and of the pass rate."""
        return sum(count for outcome, count in self.counts.items() if outcome in SCORED)

    @property
    def solved(self) -> int:
        """Trials that passed."""
        return self.counts.get("pass", 0)

    @property
    def invalid(self) -> int:
        """Trials whose verifier could not judge."""
        return self.counts.get("verifier_error", 0)

    @property
    def infrastructure(self) -> int:
        """Trials that could not be run to a verdict, which is not the agent's fault."""
        return self.counts.get("infrastructure_error", 0)

    @property
    def open(self) -> int:
        """Trials that were planned and have no record yet."""
        return max(0, self.planned - self.finished)

    @property
    def cost_per_solved(self) -> float | None:
        """The cost of all trials by the number of those that passed; None where either is not known."""
        cost = self.usage.cost_usd if self.usage else None
        return cost / self.solved if cost is not None and self.solved else None

    def _repr_html_(self) -> str:
        from seatrial.analysis.tables import Table, html_table, interval  # noqa: PLC0415 - only notebooks need it

        estimates: dict[str, Estimate | None] = {"mean reward": self.estimate, "pass rate": self.pass_estimate}
        estimates.update({f"pass@{k}": found for k, found in self.pass_at.items()})
        estimates.update({f"pass^{k}": found for k, found in self.pass_all.items()})
        rows = [
            (name, format_mean(each.value), interval(each), f"{each.groups:,}")
            for name, each in estimates.items()
            if each
        ]
        return html_table("figures", Table(("", "value", "interval", "tasks"), rows))


class RunningMean:
    """The mean over tasks of scored trials that come one by one, cheap to ask for after each of them."""

    def __init__(self) -> None:
        self._totals: dict[str, tuple[float, int]] = {}
        self._means: dict[str, float] = {}

    def add(self, task: str, reward: float) -> None:
        """Count one more scored trial."""
        total, count = self._totals.get(task, (0.0, 0))
        self._totals[task] = total, count = total + reward, count + 1
        self._means[task] = total / count

    @property
    def value(self) -> float:
        """The mean so far, of at least one trial."""
        return fmean(self._means.values())


def figures_of(
    trials: Trials,
    *,
    clusters: Mapping[str, Hashable] | None = None,
    ks: Sequence[int] | None = None,
    level: float = 0.95,
) -> Figures:
    """The figures of trials.

    `clusters` says which tasks belong together, such as those of one family, `ks` for which k pass@k is wanted, and
    `level` how sure intervals are.
    """
    rewards, attempts = trials.rewards, [*trials.attempts.values()]
    together = _together(rewards, clusters)
    passed = [[1.0] * passes + [0.0] * (judged - passes) for judged, passes in attempts]
    pass_estimate = estimate_mean(passed, together, level)
    ks = attempts_asked(attempts) if ks is None else ks
    once = {1: pass_estimate} if pass_estimate and 1 in ks else {}  # the same question, so the same interval
    more = [k for k in ks if k > 1]
    outcomes = Counter(map(_OUTCOME, trials.entries))
    disputed, believed_mean = _disputes(trials)
    regraded, first_mean = _regraded(trials)
    estimate = _estimate(rewards, together, level)
    return Figures(
        planned=trials.planned,
        counts={outcome: outcomes[outcome] for outcome in OUTCOMES if outcomes[outcome]},
        mean=estimate.value if estimate else mean_of(trials.task_means.values()),
        estimate=estimate,
        pass_estimate=pass_estimate,
        pass_at=once | {k: found for k in more if (found := estimate_pass_at_k(attempts, k, level, together))},
        pass_all=once | {k: found for k in more if (found := estimate_pass_all_k(attempts, k, level, together))},
        stability=stability(attempts),
        times=times_of(trials.entries),
        trial_mean=mean_of(chain.from_iterable(rewards.values())),
        mean_if_failed=_mean_if_failed(trials),
        usage=trials.usage,
        verifier_usage=trials.verifier_usage,
        disputed=disputed,
        believed_mean=believed_mean,
        curated=sum(map(bool, map(_PUT_BACK, trials.entries))),
        warnings=dict(Counter(chain.from_iterable(map(_WARNINGS, trials.entries)))),
        unheld=dict(Counter(chain.from_iterable(map(_UNHELD, trials.entries)))),
        regraded=regraded,
        first_mean=first_mean,
    )


def as_counted(entries: Iterable["TrialEntry"]) -> list["TrialEntry"]:
    """Trials with the outcomes that they count as.

    A verifier that has no verdict even on an untouched system is broken: no trial of its task is scored, not even one
    that it was content with.
    """
    found = [*entries]
    broken = {entry.task_id for entry in found if entry.broken}
    if not broken:
        return found
    return [
        entry._replace(outcome="verifier_error") if entry.task_id in broken and entry.outcome in SCORED else entry
        for entry in found
    ]


def first_broken_tasks(entries: Iterable["TrialEntry"]) -> frozenset[str]:
    """The tasks of which no trial counted by the verdicts when they ran."""
    return frozenset([each.task_id for each in entries if (each.first_broken if each.revision else each.broken)])


def corrected_of(
    trials: Trials, *, clusters: Mapping[str, Hashable] | None = None, level: float = 0.95
) -> CorrectedMean | None:
    """The lowest and the highest mean that trials can have, whatever became of those that are disputed or have no
    verdict; None where there is no trial.
    """
    tasks: dict[str, list[Possible]] = defaultdict(list)
    for trial in trials.entries:
        judged = trial.outcome in SCORED and trial.reward is not None
        tasks[trial.task_id].append(known(trial.reward or 0.0, trial.disputed_reward) if judged else FAILED)
    return corrected_mean([*tasks.values()], _together(tasks, clusters), level)


def mean_of(values: Iterable[float | None]) -> float | None:
    """The mean of the values that are known, None when there is none."""
    numbers = [value for value in values if value is not None]
    return fmean(numbers) if numbers else None


def mean_over_tasks(rewards: Iterable[tuple[str, float | None]]) -> float | None:
    """The mean over tasks of the means of their rewards, of those that are known; None when there is none."""
    return mean_of(map(fmean, _by_task(rewards).values()))


def added_usage(parts: Sequence[UsageTotal]) -> UsageTotal | None:
    """What several groups of trials used, None where there is none; a cost only if that of each is known."""
    if not parts:
        return None
    costs = [part.cost_usd for part in parts if part.cost_usd is not None]
    return UsageTotal(
        trials=sum(part.trials for part in parts),
        calls=sum(part.calls for part in parts),
        input_tokens=sum(part.input_tokens for part in parts),
        output_tokens=sum(part.output_tokens for part in parts),
        cost_usd=math.fsum(costs) if len(costs) == len(parts) else None,
        prices=tuple(sorted({prices for part in parts for prices in part.prices})),
    )


def attempts_asked(attempts: Sequence[Attempts]) -> list[int]:
    """For which k pass@k is worth a number: 1, the powers of two, and as many attempts as any task has."""
    most = max((judged for judged, _ in attempts), default=0)
    powers = [2**power for power in range(most.bit_length()) if 2**power <= most]
    return sorted({*powers, most} - {0})


def times_of(trials: Iterable["TrialEntry"]) -> Times | None:
    """How long trials took, None where that is not known."""
    seconds = sorted(trial.duration_sec for trial in trials if trial.duration_sec is not None)
    if not seconds:
        return None
    return Times(median(seconds), seconds[math.ceil(0.9 * len(seconds)) - 1], math.fsum(seconds))


def tally_json(figures: Figures) -> dict[str, Any]:
    """The means and counts of trials as programs get them: every number and every denominator."""
    return {
        "planned": figures.planned,
        "finished": figures.finished,
        "scored": figures.scored,
        "invalid": figures.invalid,
        "infrastructure": figures.infrastructure,
        "open": figures.open,
        "outcomes": dict(figures.counts),
        "mean": figures.mean,
        "interval": figures.interval,
        "level": figures.estimate.level if figures.estimate else None,
        "tasks": figures.estimate.groups if figures.estimate else 0,
        "effective": figures.estimate.effective if figures.estimate else None,
        "trial_mean": figures.trial_mean,
        "mean_if_failed": figures.mean_if_failed,
        "pass_rate": figures.pass_rate,
        "pass_interval": figures.pass_interval,
        "usage": asdict(figures.usage) if figures.usage else None,
        "verifier_usage": asdict(figures.verifier_usage) if figures.verifier_usage else None,
        "disputed": figures.disputed,
        "believed_mean": figures.believed_mean,
        "curated": figures.curated,
        "warnings": dict(figures.warnings),
        "unheld": dict(figures.unheld),
        "regraded": figures.regraded,
        "first_mean": figures.first_mean,
    }


def _by_task(rewards: Iterable[tuple[str, float | None]]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    for task, reward in rewards:
        if reward is not None:
            found[task].append(reward)
    return found


def _estimate(
    rewards: Mapping[str, Sequence[float]], together: Sequence[Hashable] | None, level: float
) -> Estimate | None:
    """The mean with its interval; the latter is made for rewards from 0 to 1."""
    groups = [*rewards.values()]
    if any(min(each) < 0.0 or max(each) > 1.0 for each in groups):
        return None
    return estimate_mean(groups, together, level)


def _together(tasks: Iterable[str], clusters: Mapping[str, Hashable] | None) -> list[Hashable] | None:
    """What belongs together; a task without a cluster is alone, also where a cluster has its name."""
    return [(task in clusters, clusters.get(task, task)) for task in tasks] if clusters else None


def _mean_if_failed(trials: Trials) -> float | None:
    counts = Counter(map(_TASK, trials.entries))
    return mean_of(math.fsum(trials.rewards.get(task, ())) / count for task, count in counts.items())


def _regraded(trials: Trials) -> tuple[int, float | None]:
    """How many trials were judged again, and the mean by the verdicts that all of them had when they ran."""
    regraded = sum(1 for entry in trials.entries if entry.revision)
    if not regraded:
        return 0, None
    broken = first_broken_tasks(trials.entries) if trials.first_broken is None else trials.first_broken
    verdicts = (
        (each.task_id, each.first_outcome, each.first_reward)
        if each.revision
        else (each.task_id, each.outcome, each.reward)
        for each in trials.entries
    )
    return regraded, mean_over_tasks(
        (task, reward) for task, outcome, reward in verdicts if outcome in SCORED and task not in broken
    )


def _disputes(trials: Trials) -> tuple[int, float | None]:
    disputed = sum(1 for entry in trials.scored if entry.disputed_reward is not None)
    if not disputed:
        return 0, None
    return disputed, mean_over_tasks(
        (each.task_id, each.reward if each.disputed_reward is None else each.disputed_reward) for each in trials.scored
    )
