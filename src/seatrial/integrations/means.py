"""Why a mean of ours differs from the one that its source stored: each reason, with what it makes of the number."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

_SAME = 5e-7


@dataclass(frozen=True, slots=True)
class CountedTrial:
    """One trial in both ways of counting: `there` as its source does, `here` as we do; None if it is in no mean."""

    task: str
    there: float | None
    here: float | None


@dataclass(frozen=True, slots=True)
class Reason:
    """One difference between two ways of counting, and by how much it changes the mean."""

    text: str
    change: float


@dataclass(frozen=True, slots=True)
class Means:
    """The mean of one agent as it was stored, and as it is here; None where there is none."""

    agent: str
    stored: float | None
    mean: float | None
    trials: int
    scored: int
    tasks: int
    reasons: Sequence[Reason] = ()


def compare_means(agent: str, stored: float | None, trials: Sequence[CountedTrial], rule: str, scale: str) -> Means:
    """Both means of an agent's trials. `rule` says how the source counts, `scale` how rewards were mapped, if so."""
    judged = [trial for trial in trials if trial.here is not None]
    tasks: dict[str, list[float]] = defaultdict(list)
    for trial in judged:
        tasks[trial.task].append(trial.here or 0.0)
    mean = _mean([math.fsum(rewards) / len(rewards) for rewards in tasks.values()])
    reasons: list[Reason] = []
    if stored is not None and mean is not None:
        reasons = _reasons(stored, mean, trials, rule, scale)
    return Means(agent, stored, mean, len(trials), len(judged), len(tasks), reasons)


def _reasons(stored: float, mean: float, trials: Sequence[CountedTrial], rule: str, scale: str) -> list[Reason]:
    """From the stored mean to ours, one step after the other."""
    judged = [trial for trial in trials if trial.here is not None]
    unjudged = [trial for trial in trials if trial.here is None and trial.there is not None]
    named = f"{len(unjudged):,} trials without a verdict are" if len(unjudged) != 1 else "1 trial without a verdict is"
    steps = [
        ("the stored mean is not that of these trials by its own rule", _mean([trial.there for trial in trials])),
        (f"{named} in no mean here; {rule}", _mean([trial.there for trial in judged])),
        (scale, _mean([trial.here for trial in judged])),
        ("tasks weigh the same here, however many of their trials were judged", mean),
    ]
    found, before = [], stored
    for text, after in steps:
        if after is not None and abs(after - before) > _SAME:
            found.append(Reason(text, after - before))
        before = before if after is None else after
    return found


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
