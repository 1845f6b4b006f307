"""Two arms on the tasks that both were judged on: how much better the second is, how sure that is, and where."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from seatrial.analysis.arms import Arm
from seatrial.analysis.notebook import PAIR_COLUMNS, html_table, pair_row
from seatrial.stats.multiple import holm
from seatrial.stats.paired import Paired, mcnemar, paired_difference, task_difference

Verdict = Literal["better", "worse", "no difference seen", "inconclusive"]
"""What became of the second arm against the first.

`inconclusive`: so few tasks could not have shown a difference, or only the p-value speaks for one and not the interval.
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
    """A task that one arm passed and the other did not, each in more than half of its judged trials.

    The trials of each arm are all that were judged, those that show it first.
    """

    task_id: str
    first: tuple[str, ...]
    second: tuple[str, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """The second arm against the first. `paired` is None where they have no judged task in common.

    `adjusted_p` is the p-value after Holm, where several comparisons were made at once, and `adjusted_least` the
    smallest that it can be. `families` names those of tasks that are variants of each other, None where each task
    stands for itself.
    """

    first: Arm
    second: Arm
    pairs: Sequence[TaskPair]
    paired: Paired | None
    adjusted_p: float | None = None
    families: Mapping[str, str] | None = None
    adjusted_least: float | None = None

    def __repr__(self) -> str:
        return f"<Comparison of {self.second.label!r} with {self.first.label!r}: {self.verdict}>"

    def _repr_html_(self) -> str:
        return html_table("B against A, in points of 100", PAIR_COLUMNS, [self.row])

    @property
    def row(self) -> tuple[str, ...]:
        """The cells of PAIR_COLUMNS."""
        return pair_row((self.first.label, self.second.label), self.paired, self.p_value, self.verdict)

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
    def least_p(self) -> float:
        """The smallest p-value that so many tasks, or families, can have: that of all of them won, or all lost."""
        if self.adjusted_least is not None:
            return self.adjusted_least
        return min(1.0, 2.0 ** (1 - (self.family_count or len(self.pairs))))

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
        return self.paired is None or self.least_p > 1.0 - self.paired.level

    @property
    def verdict(self) -> Verdict:
        """In a word. A difference is believed where its interval and its p-value both speak for it."""
        if self.paired is None or self.p_value is None or self.too_few:
            return "inconclusive"
        unlikely = self.p_value <= 1.0 - self.paired.level
        beyond = not self.paired.low <= 0.0 <= self.paired.high
        if unlikely and beyond:
            return "better" if self.paired.difference > 0 else "worse"
        # Of several comparisons the p-value is corrected and the interval is not, so they need not agree.
        return "inconclusive" if unlikely else "no difference seen"

    @property
    def gained(self) -> list[Flip]:
        """Tasks that only the second passed."""
        return self._flips({"first": False, "second": True})

    @property
    def dropped(self) -> list[Flip]:
        """Tasks that only the first passed."""
        return self._flips({"first": True, "second": False})

    def _flips(self, passed: Mapping[str, bool]) -> list[Flip]:
        arms = ((self.first, passed["first"]), (self.second, passed["second"]))
        tasks = {pair.task_id for pair in self.pairs}
        flipped = {task for task in tasks if all(_passed(arm, task) == wanted for arm, wanted in arms)}
        trials = [_trials(arm, flipped, passed=wanted) for arm, wanted in arms]
        return [Flip(task, tuple(trials[0][task]), tuple(trials[1][task])) for task in sorted(flipped)]


def after_holm(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Comparisons made at once, with their p-values and what these can be at least after Holm, if there are several."""
    known = [each for each in comparisons if each.paired]
    if len(known) < 2:
        return [*comparisons]
    values = iter(holm([each.paired.p_value for each in known if each.paired]))
    least = iter(holm([each.least_p for each in known]))
    return [
        replace(each, adjusted_p=next(values), adjusted_least=next(least)) if each.paired else each
        for each in comparisons
    ]


def compare_arms(
    first: Arm, second: Arm, level: float = 0.95, seed: int = 0, families: Mapping[str, str] | None = None
) -> Comparison:
    """Compare by task; what only one of them was judged on does not count.

    `families` names those of tasks that are variants of each other. They are then no more independent than they are.
    """
    common = [task for task in first.rewards if task in second.rewards]
    pairs = [TaskPair(task, _mean(first.rewards[task]), _mean(second.rewards[task])) for task in sorted(common)]
    rewards = [pair.first for pair in pairs], [pair.second for pair in pairs]
    paired = paired_difference(*rewards, level, seed, _clusters(pairs, families))
    return Comparison(first, second, pairs, paired, families=families)


def _clusters(pairs: Sequence[TaskPair], families: Mapping[str, str] | None) -> list[tuple[bool, str]] | None:
    """The family of each task; one that has none is its own, and not the family of that name."""
    if families is None:
        return None
    return [(pair.task_id in families, families.get(pair.task_id, pair.task_id)) for pair in pairs]


def _passed(arm: Arm, task: str) -> bool:
    judged, passed = arm.attempts[task]
    return 2 * passed > judged


def _trials(arm: Arm, tasks: set[str], *, passed: bool) -> dict[str, list[str]]:
    """The judged trials of tasks, those first that passed, or that did not."""
    found: dict[str, list[str]] = {task: [] for task in tasks}
    chosen = [trial for trial in arm.scored if trial.task_id in tasks]
    for trial in sorted(chosen, key=lambda trial: (trial.outcome == "pass") != passed):
        found[trial.task_id].append(trial.trial_id)
    return found


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
