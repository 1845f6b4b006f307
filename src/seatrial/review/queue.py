"""Which trials a reviewer is asked about: where people are needed most comes first, then a random slice of the rest.

Why a trial is asked about, and how likely that was, goes into the journal with the verdict, so that estimates can be
weighted back. Once a verdict was given, the trial stays in the stratum it was drawn from, whatever people say later.
"""

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from seatrial.analysis.loaded import Reviews
from seatrial.model.evaluation import NONDETERMINISTIC, RUN_CATEGORIES, Judgment
from seatrial.model.outcome import SCORED_OUTCOMES
from seatrial.model.review import ReviewEntry, Sampling, last_words, not_taken_back
from seatrial.review.verdicts import TrialReview, is_decided, review_of
from seatrial.store.index import TrialEntry

RANDOM_ITEMS = 100
RANDOM = "random"
DOUBTED = "judges"
CALIBRATION = "calibration"
ItemState = Literal["open", "deferred", "done"]

_DRAWN = (DOUBTED, RANDOM)
"""Strata of which some are drawn: a rubric may ask for more than a verifier does, and so doubt almost every pass."""

_NEAR = 0.15
_UNSEEN = frozenset({"infrastructure_error", "cancelled"})
_FLAKY = frozenset({NONDETERMINISTIC, "disputed_verdict"})
_LOT_BYTES = 8


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """How many trials the random slice has, and which seed draws it. The same options give everybody the same queue.

    `where` is the filter that its trials were chosen by, if they are not all of a job.
    """

    random: int = RANDOM_ITEMS
    seed: int = 0
    where: str = ""


@dataclass(frozen=True, slots=True)
class QueueItem:
    """A trial that is to be reviewed, and how it came into the queue."""

    trial: TrialEntry
    sampling: Sampling


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A trial that could be reviewed.

    `stratum` is what it is drawn from, the same for all reviewers; `rank` is how urgent it is for this one; `lot` is
    random, and always the same. A trial with `gold` calibrates reviewers.
    """

    trial: TrialEntry
    stratum: str
    rank: int
    lot: float
    gold: bool


def make_queue(
    trials: Iterable[TrialEntry],
    reviews: Reviews,
    threshold: float,
    reviewer: str,
    options: QueueOptions,
    doubted: Collection[str] = (),
) -> list[QueueItem]:
    """What a reviewer is asked about, in this order. Of trials that are `doubted`, judges are not sure.

    Of the trials that judges doubt, and of the rest, as many are drawn by lot as the random slice has; other strata are
    taken whole. Trials whose verdict is known are mixed in, except for those who
    said what it is. A trial that the machinery failed has nothing to look at, and is never asked about.
    """
    candidates = []
    for trial in trials:
        if trial.outcome not in _UNSEEN:
            said = reviews.get(trial.trial_id)
            entries = not_taken_back(said) if said else []
            is_doubted = trial.trial_id in doubted
            candidates.append(_candidate(trial, entries, threshold, reviewer, options.seed, is_doubted=is_doubted))
    taken = [each for each in candidates if each.stratum not in _DRAWN]
    chances = {}
    for name in _DRAWN:
        rest = [each for each in candidates if each.stratum == name]
        drawn = sorted(rest, key=lambda each: each.lot)[: options.random]
        chances[name] = len(drawn) / len(rest) if rest else 1.0
        taken += drawn
    known = {trial_id for trial_id, entries in reviews.items() if _has_gold(entries, reviewer)}
    return [
        QueueItem(each.trial, _sampling(each, chances, options))
        for each in _mixed(taken)
        if each.trial.trial_id not in known
    ]


def _sampling(drawn: _Candidate, chances: Mapping[str, float], options: QueueOptions) -> Sampling:
    chance = chances.get(drawn.stratum, 1.0)
    return Sampling(stratum=drawn.stratum, probability=chance, where=options.where or None)


def stratum_of(
    trial: TrialEntry, entries: Iterable[ReviewEntry], threshold: float, doubted: Collection[str] = ()
) -> str:
    """What a trial is drawn from, or was when its first verdict was given; the same for all reviewers."""
    is_doubted = trial.trial_id in doubted
    standing = not_taken_back(entries)
    if not standing:
        return _urgency(trial, (), threshold, is_doubted=is_doubted)
    drawn_from = next((each.sampling.stratum for each in standing if each.sampling), None)
    urgency = _urgency(trial, standing, threshold, is_doubted=is_doubted)
    return drawn_from or (CALIBRATION if _has_gold(standing) else urgency)


def state_for(reviewer: str, entries: Iterable[ReviewEntry]) -> ItemState:
    """How far a reviewer is with a trial."""
    said = last_words(entries).get(reviewer)
    if said is None:
        return "open"
    return "done" if is_decided(said) else "deferred"


def _candidate(
    trial: TrialEntry, entries: Sequence[ReviewEntry], threshold: float, reviewer: str, seed: int, *, is_doubted: bool
) -> _Candidate:
    lot = _lot(trial.trial_id, seed)
    stratum = stratum_of(trial, entries, threshold, (trial.trial_id,) if is_doubted else ())
    if not entries:  # as almost all trials of a large job are
        return _Candidate(trial, stratum, _RANKS[stratum], lot, gold=False)
    # What reviewers say themselves must not move what they have just judged to another place before their eyes.
    others = [each for each in entries if each.reviewer_id != reviewer]
    rank = _RANKS[_urgency(trial, others, threshold, is_doubted=is_doubted)]
    return _Candidate(trial, stratum, rank, lot, _has_gold(entries))


def _urgency(trial: TrialEntry, entries: Sequence[ReviewEntry], threshold: float, *, is_doubted: bool) -> str:
    """The first stratum that a trial belongs to, by what is said of it."""
    review = review_of(trial.trial_id, entries) if entries else None
    rest = DOUBTED if is_doubted else RANDOM
    return next((name for name, applies in _STRATA.items() if applies(trial, review, threshold)), rest)


def _has_gold(entries: Iterable[ReviewEntry], by: str | None = None) -> bool:
    said = (each for each in not_taken_back(entries) if each.role == "gold")
    return any(by is None or each.reviewer_id == by for each in said)


def _mixed(candidates: Iterable[_Candidate]) -> list[_Candidate]:
    """The most urgent ones first; trials with a known verdict anywhere among them, so that nothing tells them apart."""
    ordered = sorted(candidates, key=lambda each: (each.rank, each.lot))
    mixed = [each for each in ordered if not each.gold]
    for each in ordered:
        if each.gold:
            mixed.insert(int(each.lot * (len(mixed) + 1)), each)
    return mixed


def _lot(trial_id: str, seed: int) -> float:
    """A number from 0 to 1 that a seed draws for a trial, independent of which other trials there are."""
    digest = hashlib.blake2b(f"{seed}\0{trial_id}".encode("utf-8", "surrogatepass"), digest_size=_LOT_BYTES).digest()
    return int.from_bytes(digest) / float(2 ** (8 * _LOT_BYTES))


def _is_disputed_by_people(trial: TrialEntry, review: TrialReview | None, _: float) -> bool:
    """Whether people or judges say something else than the verifier or each other, and nobody has settled it."""
    passed = trial.outcome == "pass"
    if passed and any(tag.startswith("judge:") for tag in trial.tags):
        return True
    if review is None or review.state == "adjudicated":
        return False
    if review.state in ("needs", "contested"):
        return True
    judged = trial.outcome in SCORED_OUTCOMES and review.verdict is not None
    return judged and (review.verdict is Judgment.PASS) != passed


def _is_near_threshold(trial: TrialEntry, _: TrialReview | None, threshold: float) -> bool:
    # Zero and one are what verifiers without degrees say; that one of them is the threshold makes no case a close one.
    reward = trial.reward
    return reward is not None and 0.0 < reward < 1.0 and abs(reward - threshold) <= _NEAR


def _is_flaky(trial: TrialEntry, *_: object) -> bool:
    differs = len(set(trial.repeats)) > 1
    return differs or trial.disputed_reward is not None or (bool(trial.tags) and bool(_FLAKY & _categories(trial)))


def _is_tampered(trial: TrialEntry, *_: object) -> bool:
    return bool(trial.tags) and bool(RUN_CATEGORIES & _categories(trial))


def _categories(trial: TrialEntry) -> frozenset[str]:
    return frozenset(tag.partition(":")[2] for tag in trial.tags)


_STRATA: Mapping[str, Callable[[TrialEntry, TrialReview | None, float], bool]] = {
    "disagreement": _is_disputed_by_people,
    "near_threshold": _is_near_threshold,
    "flaky": _is_flaky,
    "tampering": _is_tampered,
}
_RANKS = {name: rank for rank, name in enumerate((*_STRATA, *_DRAWN))}
