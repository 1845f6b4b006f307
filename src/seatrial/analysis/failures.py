"""Why trials failed: their classified failures counted by category and agent, with how sure the shares are.

What a run itself noticed about an agent is evidence and explains no reward, so it is counted apart. Trials that were
never judged have causes instead: a machine that failed and a verifier that could not judge say nothing of an agent.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import nsmallest

from seatrial.analysis.arms import Arm
from seatrial.analysis.summary import count_failures
from seatrial.model.evaluation import RUN_CATEGORIES
from seatrial.model.outcome import Outcome
from seatrial.stats.estimates import Estimate, estimate_mean
from seatrial.store.index import TrialEntry

MOST_KINDS = 40
_MOST_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class TagCount:
    """How many scored trials of an arm are classified so, by whichever `source`, and how many of them did not pass.

    The shares are means over tasks: of all scored trials, and of those that did not pass; None where there are none.
    """

    category: str
    source: str
    """Who classified, such as `human, judge`."""
    arm: str
    trials: int
    failed: int
    of_scored: Estimate | None
    of_failed: Estimate | None
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StepCount:
    """How many scored trials of an arm did not pass a step, having passed those before it."""

    arm: str
    step: str
    trials: int
    example: str


@dataclass(frozen=True, slots=True)
class UnjudgedCount:
    """How many trials of an arm have no verdict for one reason."""

    arm: str
    outcome: Outcome
    reason: str
    trials: int
    example: str


@dataclass(frozen=True, slots=True)
class FailedCount:
    """How many scored trials of an arm did not pass, and how many of those are not classified."""

    arm: str
    scored: int
    failed: int
    unclassified: int


@dataclass(frozen=True, slots=True)
class Taxonomy:
    """Why the trials of arms failed. `failures` and `evidence` have the most frequent kinds first, arms in order.

    Only the most frequent kinds are in them; `left_out` counts the others, for a verifier may name any number.
    """

    failures: tuple[TagCount, ...]
    evidence: tuple[TagCount, ...]
    steps: tuple[StepCount, ...]
    unjudged: tuple[UnjudgedCount, ...]
    totals: tuple[FailedCount, ...]
    left_out: int = 0


def taxonomy_of(arms: Sequence[Arm], *, level: float | None = 0.95) -> Taxonomy:
    """Count why the trials of arms failed; without a level there are no shares, which take most of the time."""
    found = [_tagged(arm.scored) for arm in arms]
    kinds = Counter[str]()
    for tagged in found:
        kinds.update({category: len(trials) for category, trials in tagged.items()})
    ordered = sorted(kinds, key=lambda category: (-kinds[category], category))
    counts = [
        _count(arm, category, tagged[category], level)
        for category in ordered[:MOST_KINDS]
        for arm, tagged in zip(arms, found, strict=True)
        if category in tagged
    ]
    return Taxonomy(
        failures=tuple(count for count in counts if count.category not in RUN_CATEGORIES),
        evidence=tuple(count for count in counts if count.category in RUN_CATEGORIES),
        steps=tuple(step for arm in arms for step in _steps(arm)),
        unjudged=tuple(cause for arm in arms for cause in _unjudged(arm)),
        totals=tuple(_total(arm) for arm in arms),
        left_out=max(0, len(ordered) - MOST_KINDS),
    )


@lru_cache(maxsize=1024)
def _sources(tags: tuple[str, ...]) -> Mapping[str, Sequence[str]]:
    """By category, who classified."""
    found: dict[str, list[str]] = defaultdict(list)
    for source, _, category in (tag.partition(":") for tag in tags):
        found[category].append(source)
    return found


def _tagged(trials: Iterable[TrialEntry]) -> Mapping[str, list[TrialEntry]]:
    found: dict[str, list[TrialEntry]] = defaultdict(list)
    for trial in trials:
        if trial.tags:
            for category in _sources(trial.tags):
                found[category].append(trial)
    return found


def _count(arm: Arm, category: str, trials: Sequence[TrialEntry], level: float | None) -> TagCount:
    failed = [trial for trial in trials if trial.outcome != "pass"]
    sources = sorted({source for tags in {each.tags for each in trials} for source in _sources(tags)[category]})
    shares = (None, None) if level is None else _shares(arm, trials, failed, level)
    examples = nsmallest(_MOST_EXAMPLES, failed or trials, key=lambda trial: (trial.reward or 0.0, trial.trial_id))
    return TagCount(
        category=category,
        source=", ".join(sources),
        arm=arm.label,
        trials=len(trials),
        failed=len(failed),
        of_scored=shares[0],
        of_failed=shares[1],
        examples=tuple(trial.trial_id for trial in examples),
    )


def _shares(
    arm: Arm, trials: Sequence[TrialEntry], failed: Sequence[TrialEntry], level: float
) -> tuple[Estimate | None, Estimate | None]:
    judged = {task: count for task, (count, _) in arm.attempts.items()}
    lost = {task: count - passed for task, (count, passed) in arm.attempts.items()}
    return _share(trials, judged, level), _share(failed, lost, level)


def _share(trials: Sequence[TrialEntry], among: Mapping[str, int], level: float) -> Estimate | None:
    """The share of such trials among as many of each task, as a mean over tasks."""
    hits = Counter(trial.task_id for trial in trials)
    groups = [[1.0] * hits[task] + [0.0] * (count - hits[task]) for task, count in among.items() if count]
    return estimate_mean(groups, level=level)


def _steps(arm: Arm) -> list[StepCount]:
    steps: dict[str, list[str]] = defaultdict(list)
    for trial in arm.scored:
        if trial.failed_step is not None:
            steps[trial.failed_step].append(trial.trial_id)
    ordered = sorted(steps.items(), key=lambda item: (-len(item[1]), item[0]))
    return [StepCount(arm.label, step, len(ids), min(ids)) for step, ids in ordered[:MOST_KINDS]]


def _unjudged(arm: Arm) -> list[UnjudgedCount]:
    broken = [
        UnjudgedCount(arm.label, "infrastructure_error", each.reason, each.trials, each.example)
        for each in count_failures(arm.trials)
    ]
    reasons: dict[tuple[Outcome, str], list[str]] = defaultdict(list)
    for trial in arm.trials:
        if trial.outcome in ("verifier_error", "cancelled"):
            reasons[trial.outcome, _said(trial)].append(trial.trial_id)
    others = [
        UnjudgedCount(arm.label, outcome, reason, len(ids), min(ids)) for (outcome, reason), ids in reasons.items()
    ]
    return sorted([*broken, *others], key=lambda cause: (-cause.trials, cause.outcome, cause.reason))[:MOST_KINDS]


def _said(trial: TrialEntry) -> str:
    """Why a verifier could not judge, as far as it was classified."""
    if trial.outcome == "verifier_error" and trial.broken:
        return "the verifier has no verdict even on an untouched system"
    return ", ".join(_sources(trial.tags)) or "no reason is known"


def is_unclassified(tags: tuple[str, ...]) -> bool:
    """Whether tags explain no reward: there are none, or a run made all of them."""
    return RUN_CATEGORIES.issuperset(_sources(tags))


def _total(arm: Arm) -> FailedCount:
    failed = Counter([trial.tags for trial in arm.scored if trial.outcome != "pass"])
    unclassified = sum(count for tags, count in failed.items() if is_unclassified(tags))
    return FailedCount(arm.label, len(arm.scored), failed.total(), unclassified)
