"""`seatrial.compare`: how much better one agent is than another at the same tasks, how sure that is, and where.

Where a reward does not mean the same on both sides (`comparability`) there is no comparison, unless it is forced. The
numbers are those of `seatrial.stats.paired`. Also the gate for CI: is the second not worse by more than a margin?
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, get_args

from seatrial.analysis.arms import Arm, arms_of
from seatrial.analysis.comparability import Comparability, Difference, comparability, difference_line, printable
from seatrial.analysis.loaded import LoadedJob, load_job
from seatrial.analysis.tables import html_table, pair_row, pairs_table
from seatrial.errors import JobError, UsageError
from seatrial.model.job import TaskLabels
from seatrial.stats.estimates import SUREST, Attempts
from seatrial.stats.expected import needed_for_margin, sample_of
from seatrial.stats.paired import (
    AmountDifference,
    Paired,
    PairTest,
    amount_difference,
    holm,
    mcnemar,
    paired_difference,
    task_difference,
)
from seatrial.stats.sign_flips import (
    ROUNDING,
    difference_interval,
    differing_of,
    fewest_tasks,
    is_told_apart,
    least_p_value,
)
from seatrial.store.index import TrialEntry

# Two arms on the tasks that both were judged on.

Verdict = Literal["better", "worse", "no difference seen", "inconclusive"]
"""What became of the second arm against the first.

`inconclusive`: so few tasks could not have shown a difference, however large.
"""


@dataclass(frozen=True, slots=True)
class TaskPair:
    """The means of both arms at one task."""

    task_id: str
    first: float
    second: float

    @property
    def difference(self) -> float:
        """By how much the second is better."""
        return task_difference(self.first, self.second)


@dataclass(frozen=True, slots=True)
class Flip:
    """A task that one arm passed, in one judged trial or more, and the other in none.

    The trials of each arm are all that were judged, those that passed first.
    """

    task_id: str
    first: tuple[str, ...]
    second: tuple[str, ...]
    passed: tuple[int, int]
    """How many trials of each passed; of one side it is none."""


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """The second arm against the first."""

    first: Arm
    second: Arm
    pairs: Sequence[TaskPair]
    paired: Paired | None
    """None where they have no judged task in common."""
    adjusted_p: float | None = None
    """The p-value after Holm, where several comparisons were made at once."""
    families: Mapping[str, str] | None = None
    """The families of tasks that are variants of each other; None where each task stands for itself."""
    seed: int = 0
    """Of the signs that were drawn."""
    adjusted_least: float | None = None
    """The smallest that the adjusted p-value can be."""
    adjusted_interval: tuple[float, float] | None = None
    """The interval that the adjusted p-value asks for: it excludes 0 where that is small enough."""

    def __repr__(self) -> str:
        return f"<Comparison of {self.second.label!r} with {self.first.label!r}: {self.verdict}>"

    def _repr_html_(self) -> str:
        return html_table("B against A, in points of 100", pairs_table([self.row]))

    @property
    def row(self) -> tuple[str, ...]:
        """The row of a table of comparisons."""
        return pair_row((self.first.label, self.second.label), self.paired, self.interval, self.p_value, self.verdict)

    @property
    def won(self) -> list[TaskPair]:
        """The tasks at which the second is better, most of all first."""
        return sorted(
            (pair for pair in self.pairs if pair.difference > 0), key=lambda pair: (-pair.difference, pair.task_id)
        )

    @property
    def lost(self) -> list[TaskPair]:
        """The tasks at which it is worse, most of all first."""
        return sorted(
            (pair for pair in self.pairs if pair.difference < 0), key=lambda pair: (pair.difference, pair.task_id)
        )

    @property
    def p_value(self) -> float | None:
        """The p-value that counts: the adjusted one where there is one."""
        return self.adjusted_p if self.adjusted_p is not None or self.paired is None else self.paired.p_value

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval that goes with `p_value`; None where there is no difference."""
        if self.adjusted_interval is not None or self.paired is None:
            return self.adjusted_interval
        return self.paired.low, self.paired.high

    @property
    def least_p(self) -> float:
        """The smallest p-value that so many tasks, or families, can have: that of all of them won, or all lost."""
        if self.adjusted_least is not None:
            return self.adjusted_least
        return least_p_value(self.family_count or len(self.pairs))

    @property
    def family_count(self) -> int | None:
        """How many families the tasks are of, None where each stands for itself."""
        clusters = self.clusters_of(self.pairs)
        return None if clusters is None else len(set(clusters))

    def clusters_of(self, pairs: Sequence[TaskPair]) -> list[tuple[bool, str]] | None:
        """What belongs together among tasks, None where each stands for itself."""
        return _clusters(pairs, self.families)

    @property
    def mcnemar_p(self) -> float | None:
        """The p-value of McNemar's exact test, None unless each task was tried once by each arm, to a 0 or a 1."""
        if self.paired is None or self.families is not None or not self._is_binary:
            return None
        # Both tests are the same where every difference is -1, 0 or 1; only an exact one needs no second look.
        return self.paired.p_value if self.paired.test == "exact" else mcnemar(self.paired.wins, self.paired.losses)

    @property
    def _is_binary(self) -> bool:
        rewards = (arm.rewards[pair.task_id] for pair in self.pairs for arm in (self.first, self.second))
        return all(len(each) == 1 and each[0] in (0.0, 1.0) for each in rewards)

    @property
    def too_few(self) -> bool:
        """Whether so few tasks could not have shown any difference, however large."""
        return self.paired is None or not is_told_apart(self.least_p, 1.0 - self.paired.level)

    @property
    def verdict(self) -> Verdict:
        """In a word. A difference is believed by its p-value, which its interval and ranks go by too."""
        if self.paired is None or self.p_value is None or self.too_few:
            return "inconclusive"
        if not is_told_apart(self.p_value, 1.0 - self.paired.level):
            return "no difference seen"
        return "better" if self.paired.difference > 0 else "worse"

    @property
    def gained(self) -> list[Flip]:
        """What the second passed and the first did not, those first that it passed most often."""
        return self._flips(winner=1)

    @property
    def dropped(self) -> list[Flip]:
        """What the first passed and the second did not, those first that it passed most often."""
        return self._flips(winner=0)

    def _flips(self, winner: Literal[0, 1]) -> list[Flip]:
        arms = self.first, self.second
        counts = {pair.task_id: [arm.attempts[pair.task_id] for arm in arms] for pair in self.pairs}
        flipped = {task for task, each in counts.items() if each[winner][1] and not each[1 - winner][1]}
        trials = [_trials(arm, flipped) for arm in arms]
        found = [
            Flip(task, tuple(trials[0][task]), tuple(trials[1][task]), (counts[task][0][1], counts[task][1][1]))
            for task in flipped
        ]
        return sorted(found, key=lambda flip: (-_share_passed(counts[flip.task_id][winner]), flip.task_id))


def _share_passed(attempts: Attempts) -> float:
    judged, passed = attempts
    return passed / judged


def after_holm(comparisons: Sequence[Comparison], others: Sequence[PairTest] = ()) -> list[Comparison]:
    """Comparisons made at once, with p-values, what these can be at least, and intervals after Holm, if there are
    several. `others` were tested with them.
    """
    known = [each.paired for each in comparisons if each.paired]
    if len(known) + len(others) < 2:
        return [*comparisons]
    adjusted = holm([*(each.p_value for each in known), *(each.p_value for each in others)])
    values = iter(adjusted)
    least = iter(holm([*(each.least_p for each in comparisons if each.paired), *(each.least_p for each in others)]))
    return [_adjusted(each, next(values), next(least)) if each.paired else each for each in comparisons]


def _adjusted(comparison: Comparison, adjusted: float, least: float) -> Comparison:
    """The interval is that of the level at which the p-value itself would be as small as the adjusted one has to be."""
    paired = comparison.paired
    assert paired is not None  # noqa: S101 - asked for only where there is one
    interval = paired.low, paired.high
    if adjusted != paired.p_value:
        alpha = (1.0 - paired.level) * paired.p_value / adjusted
        interval = _interval(comparison, comparison.pairs, alpha)
    return replace(comparison, adjusted_p=adjusted, adjusted_least=least, adjusted_interval=interval)


def _interval(comparison: Comparison, pairs: Sequence[TaskPair], alpha: float) -> tuple[float, float]:
    clusters = comparison.clusters_of(pairs)
    return difference_interval([pair.difference for pair in pairs], alpha, comparison.seed, clusters)


def compare_arms(
    first: Arm, second: Arm, level: float = 0.95, seed: int = 0, families: Mapping[str, str] | None = None
) -> Comparison:
    """Compare by task; what only one of them was judged on does not count.

    `families` names those of tasks that are variants of each other. They are then no more independent than they are.
    """
    common = [task for task in first.rewards if task in second.rewards]
    means = [arm.selected.task_means for arm in (first, second)]
    pairs = [TaskPair(task, means[0][task], means[1][task]) for task in sorted(common)]
    rewards = [pair.first for pair in pairs], [pair.second for pair in pairs]
    paired = paired_difference(*rewards, level, seed, _clusters(pairs, families))
    return Comparison(first, second, pairs, paired, families=families, seed=seed)


def _clusters(pairs: Sequence[TaskPair], families: Mapping[str, str] | None) -> list[tuple[bool, str]] | None:
    """The family of each task; one that has none is its own, and not the family of that name."""
    if families is None:
        return None
    return [(pair.task_id in families, families.get(pair.task_id, pair.task_id)) for pair in pairs]


def _trials(arm: Arm, tasks: set[str]) -> dict[str, list[str]]:
    """The judged trials of tasks, those first that passed."""
    found: dict[str, list[str]] = {task: [] for task in tasks}
    chosen = [trial for trial in arm.scored if trial.task_id in tasks]
    for trial in sorted(chosen, key=lambda trial: trial.outcome != "pass"):
        found[trial.task_id].append(trial.trial_id)
    return found


# Jobs: which of their agents are compared. Several comparisons at once are corrected after Holm.


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """How to compare."""

    level: float = 0.95
    seed: int = 0
    force: bool = False
    """Also compare what does not mean the same; everything shown then says so."""
    unit: Literal["task", "family"] = "task"
    """With `family`, tasks of one family are variants of each other, and not independent."""

    def __post_init__(self) -> None:
        _check_numbers(self.level, self.seed)


def _check_numbers(level: Any, seed: Any) -> None:
    """Programs give these as well as people, and then nobody has looked at them."""
    if not (isinstance(level, int | float) and 0.5 <= level <= SUREST):
        raise UsageError(f"the level is {level!r}, expected a number from 0.5 to {SUREST}, such as 0.95")
    if not (isinstance(seed, int) and seed >= 0):
        raise UsageError(f"the seed is {seed!r}, expected a whole number from 0 on")


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """Two arms, whether they can be compared, and what the comparison says."""

    comparison: Comparison
    comparability: Comparability


@dataclass(frozen=True, slots=True, repr=False)
class ComparisonSet:
    """Comparisons made together. `left_out` are agents that have no counterpart."""

    first: LoadedJob
    second: LoadedJob
    pairs: tuple[ComparedPair, ...]
    options: CompareOptions
    left_out: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<ComparisonSet: {', '.join(map(repr, self.comparisons))}>"

    def _repr_html_(self) -> str:
        rows = [comparison.row for comparison in self.comparisons]
        every = [(each.weight, difference_line(each)) for pair in self.pairs for each in pair.comparability.differences]
        forced = ["Forced: a reward does not mean the same on both sides."] if self.forced else []
        notes = [*forced, *dict.fromkeys(f"{weight}: {line}" for weight, line in every)]
        return html_table("B against A, in points of 100", pairs_table(rows), notes)

    @property
    def comparisons(self) -> list[Comparison]:
        """What the comparisons say."""
        return [pair.comparison for pair in self.pairs]

    @property
    def corrected(self) -> int:
        """How many p-values were corrected together after Holm; 0 where there is only one, or none."""
        return sum(each.adjusted_p is not None for each in self.comparisons)

    @property
    def forced(self) -> list[Difference]:
        """Differences in spite of which this was compared: with any, a reward does not mean the same on both sides."""
        return [each for pair in self.pairs for each in pair.comparability.of("meaning")]


def compare_jobs(
    first: LoadedJob,
    second: LoadedJob | None = None,
    agents: Sequence[str] = (),
    options: CompareOptions | None = None,
) -> ComparisonSet:
    """Compare the agents of two jobs, or those of one.

    Of two jobs, agents of the same name are compared, or those that are named: one of both, or one of each. Within one
    job, all others are compared with the first, or with the first that is named.

    Raises JobError where there is nothing to compare, or where a reward does not mean the same on both sides.
    """
    options = options or CompareOptions()
    chosen, left_out = _across(first, second, agents) if second else (_within(first, agents), [])
    checked = [(one, other, comparability(one, other)) for one, other in chosen]
    if not options.force:
        _refuse([(one, other, found) for one, other, found in checked if not found.comparable])
    families = _families(first, second or first) if options.unit == "family" else None
    made = [compare_arms(one, other, options.level, options.seed, families) for one, other, _ in checked]
    pairs = [ComparedPair(each, found) for each, (_, _, found) in zip(after_holm(made), checked, strict=True)]
    return ComparisonSet(first, second or first, tuple(pairs), options, tuple(left_out))


def _families(*jobs: LoadedJob) -> dict[str, str]:
    return {task: labels.family for job in jobs for task, labels in job.labels.items() if labels.family is not None}


def _within(job: LoadedJob, agents: Sequence[str]) -> list[tuple[Arm, Arm]]:
    arms = {arm.agent: arm for arm in arms_of([job])}
    named = [_named(arms, agent, job) for agent in agents] or [*arms.values()]
    if twice := next((arm for arm in named if named.count(arm) > 1), None):
        raise JobError(f"{job.path}: {printable(twice.agent)} is named twice; nothing differs from itself")
    if len(named) == 1 and agents:
        named += [arm for arm in arms.values() if arm is not named[0]]
    if not named:
        raise JobError(f"{job.path}: no trial is as asked for; `seatrial show {job.path}` lists them")
    if len(named) < 2:
        raise JobError(f"{job.path}: has one agent, {printable(named[0].agent)}; give a second job to compare it with")
    return [(named[0], arm) for arm in named[1:]]


def _across(first: LoadedJob, second: LoadedJob, agents: Sequence[str]) -> tuple[list[tuple[Arm, Arm]], list[str]]:
    if first.path.resolve() == second.path.resolve():
        raise JobError(f"{first.path}: is given twice; to compare two agents of it, give it once")
    if len(agents) > 2:
        raise JobError(f"{len(agents)} agents are named; of two jobs name one that both have, or one of each")
    every = arms_of([first, second])
    one, other = ({arm.agent: arm for arm in every if arm.job is job} for job in (first, second))
    for job, arms in ((first, one), (second, other)):
        if not arms:
            raise JobError(f"{job.path}: no trial is as asked for; `seatrial show {job.path}` lists them")
    if agents:
        chosen = [(_named(one, agents[0], first), _named(other, agents[-1], second))]
    elif len(one) == len(other) == 1:
        chosen = [(next(iter(one.values())), next(iter(other.values())))]
    else:
        chosen = [(arm, other[agent]) for agent, arm in one.items() if agent in other]
    if not chosen:
        raise JobError(
            f"{first.path} and {second.path} have no agent of the same name: {_listed(one)}; {_listed(other)}. "
            "Name an agent of each (in a terminal: --agent A --agent B)"
        )
    used = {arm.label for pair in chosen for arm in pair}
    return chosen, [] if agents else [arm.label for arm in every if arm.label not in used]


def _named(arms: dict[str, Arm], agent: str, job: LoadedJob) -> Arm:
    if agent not in arms:
        raise JobError(f"{job.path}: has no agent {agent!r}; it has {_listed(arms)}")
    return arms[agent]


def _listed(arms: dict[str, Arm]) -> str:
    return ", ".join(map(printable, arms))


def _refuse(pairs: Sequence[tuple[Arm, Arm, Comparability]]) -> None:
    if not pairs:
        return
    lines = [f"  {difference_line(each)}" for _, _, found in pairs for each in found.of("meaning")]
    first, second = (printable(arm.label) for arm in pairs[0][:2])
    imported = any(arm.job.file.imported for arm in pairs[0][:2])
    again = "Import one of them again as" if imported else "Judge one of them again as"
    how = "`seatrial import --reward-range`" if imported else "`seatrial regrade`"
    raise JobError(
        "\n".join(
            (
                f"{first} and {second} cannot be compared: a reward does not mean the same on both sides",
                *dict.fromkeys(lines),
                f"{again} the other ({how}), or compare in spite of that with --force",
            )
        )
    )


Comparable = str | Path | LoadedJob | Arm


def compare(
    a: Comparable,
    b: Comparable | None = None,
    *,
    agent: str | Sequence[str] | None = None,
    level: float = 0.95,
    seed: int = 0,
    force: bool = False,
) -> ComparisonSet:
    """Compare `b` with `a` task by task: agents of the same name, or those that `agent` names; without `b`, the agents
    of one job with the first of them.

    Raises JobError where there is nothing to compare, or where a reward does not mean the same on both sides; with
    `force` it is compared all the same.
    """
    named = (agent,) if isinstance(agent, str) else tuple(agent or ())
    arms = [each for each in (a, b) if isinstance(each, Arm)]
    if arms and (named or len(arms) < 2):
        raise UsageError("an agent of a job is compared with another one: give two of them, and no agent=")
    if len(arms) == 2 and arms[0] is arms[1]:
        raise UsageError(f"{arms[0]!r} is given twice; an agent of a job is compared with another one")
    first, second = _job(a), None if b is None else _job(b)
    if arms:
        named = (arms[0].agent, arms[1].agent)
        second = None if second is first else second
    return compare_jobs(first, second, named, CompareOptions(level=level, seed=seed, force=force))


def _job(given: Comparable) -> LoadedJob:
    if isinstance(given, Arm):
        return given.job
    return given if isinstance(given, LoadedJob) else load_job(given)


# Details: parts of the breakdown, labels of tasks, costs. They are for looking closer and not for deciding, hence
# without p-values: among many differences some are large by chance.

Label = Literal["category", "difficulty", "family", "tag"]
LABELS: tuple[Label, ...] = get_args(Label)
Unit = Literal["USD", "tokens", "calls", "s"]


@dataclass(frozen=True, slots=True)
class PartDifference:
    """The means of both in one part of the breakdown, or at the tasks with one label, and second minus first."""

    name: str
    tasks: int
    first: float
    second: float
    difference: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Measured:
    """What trials of both took of something, on average over the same tasks."""

    name: str
    unit: Unit
    amounts: AmountDifference


_MEASURES: tuple[tuple[str, Unit, str], ...] = (
    ("cost", "USD", "cost_usd"),
    ("model calls", "calls", "model_calls"),
    ("tokens in", "tokens", "input_tokens"),
    ("tokens out", "tokens", "output_tokens"),
    ("agent's time", "s", "agent_sec"),
    ("whole time", "s", "duration_sec"),
)
"""What trials take, in which unit, and where their entries have it."""


def dimension_differences(comparison: Comparison) -> list[PartDifference]:
    """The difference in each part of the breakdown that both arms have, in the order of their names."""
    first, second = (arm.selected.dimensions for arm in (comparison.first, comparison.second))
    names = sorted(first.keys() & second.keys())
    found = (_part(name, _pairs(first[name], second[name]), comparison) for name in names)
    return [each for each in found if each]


def group_differences(comparison: Comparison, by: Label) -> list[PartDifference]:
    """The difference at the tasks of each category, difficulty, family or tag; tasks without one are left out."""
    groups: dict[str, list[TaskPair]] = defaultdict(list)
    for pair in comparison.pairs:
        for label in labels_by(comparison.second.job.labels_of(pair.task_id), by):
            groups[label].append(pair)
    found = (_part(name, groups[name], comparison) for name in sorted(groups))
    return [each for each in found if each]


def labels_by(labels: TaskLabels, by: Label) -> tuple[str, ...]:
    """The labels of one kind that a task has."""
    if by == "tag":
        return labels.tags
    label: str | None = getattr(labels, by)
    return (label,) if label is not None else ()


def _part(name: str, pairs: Sequence[TaskPair], comparison: Comparison) -> PartDifference | None:
    if not pairs:
        return None
    low, high = _interval(comparison, pairs, 1.0 - _level(comparison))
    first, second = fmean(pair.first for pair in pairs), fmean(pair.second for pair in pairs)
    return PartDifference(name, len(pairs), first, second, fmean(pair.difference for pair in pairs), low, high)


def _level(comparison: Comparison) -> float:
    return comparison.paired.level if comparison.paired else 0.95


def _pairs(first: dict[str, float], second: dict[str, float]) -> list[TaskPair]:
    return [TaskPair(task, first[task], second[task]) for task in sorted(first.keys() & second.keys())]


def measured_differences(comparison: Comparison) -> list[Measured]:
    """Cost, calls, tokens and time of a scored trial, on average over the tasks where both arms know it of all."""
    trials = [arm.selected.by_task for arm in (comparison.first, comparison.second)]
    found = []
    for name, unit, where in _MEASURES:
        first, second = (_known(each, attrgetter(where)) for each in trials)
        tasks = sorted(first.keys() & second.keys())
        values = [first[task] for task in tasks], [second[task] for task in tasks]
        amounts = amount_difference(*values, _level(comparison))
        if amounts:
            found.append(Measured(name, unit, amounts))
    return found


def _known(trials: dict[str, list[TrialEntry]], measure: Callable[[TrialEntry], float | None]) -> dict[str, float]:
    """The mean of a task's trials, of those tasks where it is known of every one."""
    found = {}
    for task, group in trials.items():
        values = [*map(measure, group)]
        if None not in values:
            found[task] = fmean(value or 0.0 for value in values)
    return found


# The gate. *Worse* only when the whole interval lies below minus the margin, *not worse* only when all of it lies
# above; anything else is inconclusive, with how many tasks would decide it.

_MOST_TASKS = 10_000_000
"""Nobody has more; what takes more is at the margin for all that can be seen."""

GateVerdict = Literal["not worse", "worse", "inconclusive"]


@dataclass(frozen=True, slots=True)
class GateResult:
    """What a gate says. `needed` is how many tasks would decide it, None where it is decided or none would."""

    verdict: GateVerdict
    margin: float
    needed: int | None = None


def judge_gate(comparison: Comparison, margin: float) -> GateResult:
    """Whether the second arm is worse than the first by more than the margin."""
    paired = comparison.paired
    if paired is None:
        return GateResult("inconclusive", margin)
    if paired.low >= -margin - ROUNDING:
        return GateResult("not worse", margin)
    if paired.high < -margin - ROUNDING:
        return GateResult("worse", margin)
    return GateResult("inconclusive", margin, _needed(comparison, paired.difference, margin, 1.0 - paired.level))


def worst_verdict(results: Iterable[GateResult]) -> GateVerdict:
    """What several gates amount to: all of them have to be passed."""
    found = {result.verdict for result in results}
    if "worse" in found:
        return "worse"
    return "inconclusive" if "inconclusive" in found else "not worse"


def _needed(comparison: Comparison, difference: float, margin: float, alpha: float) -> int | None:
    """How many tasks like these decide it four times out of five, if the difference is as it was seen."""
    differences, clusters = [pair.difference for pair in comparison.pairs], comparison.clusters_of(comparison.pairs)
    sample, distance = sample_of(differences, clusters), abs(difference + margin)
    ratio = needed_for_margin(sample, distance, alpha) if distance > ROUNDING else None
    if ratio is None:
        return None
    if differing_of(differences, clusters) < fewest_tasks(alpha) and distance < 1.0:  # nothing but ties narrows it
        ratio = max(ratio, math.log(alpha / 2.0) / math.log1p(-distance) / sample.alike)
    needed = max(math.ceil(ratio * len(differences)), len(differences) + 1)
    return None if needed > _MOST_TASKS else needed
