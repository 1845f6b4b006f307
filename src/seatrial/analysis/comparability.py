"""Whether numbers of two arms can be held against each other: every difference between them, by what it weighs.

Other tests or another threshold make another reward of the same work; such a comparison is refused unless somebody
insists. All else is named beside the numbers, so that a reader can think about it.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from seatrial.analysis.arms import Arm
from seatrial.analysis.differences import MEANING, Difference, Weight, asked_differences, differing, shown
from seatrial.analysis.settings import LOOKED_AT, setting_differences
from seatrial.errors import SeatrialError
from seatrial.store.index import TrialEntry

_VERY_DIFFERENT = 0.1
"""How far apart the shares of trials without a verdict may be before a reader is warned."""


@dataclass(frozen=True, slots=True)
class Comparability:
    """All differences between two arms, and what makes their comparison doubtful even where it is allowed."""

    differences: tuple[Difference, ...]
    warnings: tuple[str, ...] = ()

    def of(self, weight: Weight) -> list[Difference]:
        """Those of one weight."""
        return [each for each in self.differences if each.weight == weight]

    @property
    def comparable(self) -> bool:
        """Whether a reward means the same on both sides."""
        return not self.of("meaning")


def comparability(first: Arm, second: Arm) -> Comparability:
    """Every difference between two arms; about tasks, as far as both were judged on them."""
    common = sorted(first.rewards.keys() & second.rewards.keys())
    judged = _judged_by(first, second, set(common))
    asked = [each for each in asked_differences(first, second) if each.name not in judged]
    known = {(each.name, each.first, each.second) for each in asked}
    settings = setting_differences(first, second, common)
    found = [
        *_task_contents(first, second, common),
        *_tests(first, second, common),
        *asked,
        *(each for found in judged.values() for each in found),
        *(each for each in settings if (each.name, each.first, each.second) not in known),
        *_tasks_of_one_side(first, second),
        *_counts(first, second),
        *differing("prices", "condition", first.pool.prices, second.pool.prices),
    ]
    return Comparability(tuple(found), tuple(_warnings(first, second)))


def _task_contents(first: Arm, second: Arm, common: Iterable[str]) -> Iterator[Difference]:
    digests = [arm.job.digests for arm in (first, second)]
    changed = [task for task in common if digests[0].get(task) != digests[1].get(task)]
    if changed:
        one, other = (each.get(changed[0], "unknown")[:12] for each in digests)
        yield Difference("content of the task", "meaning", one, other, len(changed), changed[0])


def _tests(first: Arm, second: Arm, common: Iterable[str]) -> Iterator[Difference]:
    """Other tests that judged the same task: the task was changed, or one side was judged again. Where only one side
    knows its tests, nobody can tell whether they are the same.
    """
    sides = [arm.pool.tests for arm in (first, second)]
    known = [task for task in common if sides[0].get(task) and sides[1].get(task)]
    changed = [task for task in known if len(sides[0][task] | sides[1][task]) > 1]
    unknown = [task for task in common if (task in sides[0]) != (task in sides[1])]
    found: tuple[tuple[list[str], Weight], ...] = ((changed, "meaning"), (unknown, "condition"))
    for tasks, weight in found:
        if tasks:
            one, other = (shown(sorted(each.get(tasks[0], ("unknown",)))) for each in sides)
            yield Difference("tests that judged", weight, one, other, len(tasks), tasks[0])


def _judged_by(first: Arm, second: Arm, common: Collection[str]) -> dict[str, list[Difference]]:
    """Options that trials were judged again by, with what differs in them: not what the jobs asked for, but by what
    the verdicts that count were made.
    """
    sides = [_regrade_options(arm, common) for arm in (first, second)]
    found = {}
    for name in sorted({name for options in sides for each in options for name in each}):
        one, other = (
            sorted({shown(each.get(name, getattr(arm.job.file.spec.trial, name, None))) for each in options})
            for arm, options in zip((first, second), sides, strict=True)
        )
        weaker = name == "isolation" and ("keep" in one) != ("keep" in other)
        weight: Weight = "meaning" if name in MEANING or weaker else "condition"
        found[name] = differing(name, weight, one, other)
    return found


def _regrade_options(arm: Arm, common: Collection[str]) -> list[dict[str, Any]]:
    """What a few records of trials that were judged again say; of each revision and each kind of tests one is read.
    Trials that were not have no options of their own.
    """
    if not arm.pool.is_regraded:
        return [{}] if common else []
    kinds: dict[tuple[str | None, int], TrialEntry] = {}
    revisions: dict[int, TrialEntry] = {}
    for trial in arm.scored:
        if trial.task_id in common:
            kinds.setdefault((trial.tests if trial.revision else None, trial.revision), trial)
            revisions.setdefault(trial.revision, trial)
    chosen = dict.fromkeys(trial.trial_id for trial in [*revisions.values(), *kinds.values()] if trial.revision)
    found = [_options_of(arm, trial) for trial in [*chosen][:LOOKED_AT]]
    return [{}, *found] if 0 in revisions else found


def _options_of(arm: Arm, trial_id: str) -> dict[str, Any]:
    try:
        regrade = arm.job.store.record(trial_id).regrade
    except SeatrialError:
        return {}
    return dict(regrade.options) if regrade else {}


def _tasks_of_one_side(first: Arm, second: Arm) -> Iterator[Difference]:
    planned = [arm.planned_tasks.keys() for arm in (first, second)]
    yield from _unlike("tasks that only this side has", (len(planned[0] - planned[1]), len(planned[1] - planned[0])))
    judged = [arm.rewards.keys() for arm in (first, second)]
    yield from _unlike("judged tasks that the other lacks", (len(judged[0] - judged[1]), len(judged[1] - judged[0])))


def _unlike(name: str, counts: tuple[int, int]) -> Iterator[Difference]:
    if any(counts):
        yield Difference(name, "condition", f"{counts[0]:,}", f"{counts[1]:,}")


def _counts(first: Arm, second: Arm) -> Iterator[Difference]:
    """What happened to trials and may have moved their rewards, where it did so to a larger share of one side."""
    for name, one in first.pool.happened.items():
        other = second.pool.happened[name]
        if one * len(second.trials) != other * len(first.trials):
            values = f"{one:,} of {len(first.trials):,}", f"{other:,} of {len(second.trials):,}"
            yield Difference(name, "condition", *values)


def _unscored(arm: Arm) -> int:
    return len(arm.trials) - len(arm.scored)


def _warnings(first: Arm, second: Arm) -> Iterator[str]:
    shares = [_unscored(arm) / len(arm.trials) if arm.trials else 0.0 for arm in (first, second)]
    if abs(shares[0] - shares[1]) > _VERY_DIFFERENT:
        yield (
            f"{shares[0]:.0%} and {shares[1]:.0%} of the trials have no verdict; if those are not like the others, the "
            "difference is not that of the agents"
        )
    for arm in (first, second):
        if (waiting := arm.planned - len(arm.trials)) > 0:
            trials, have = ("trial", "has") if waiting == 1 else ("trials", "have")
            so_far = f"{waiting:,} planned {trials} of {arm.label} {have} no record yet"
            yield f"{so_far}: so it stands, it may end otherwise"
