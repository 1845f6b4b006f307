"""Trials beside what people say of them, from one job or several: what every figure about reviews is made of."""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from seatrial.analysis.figures import SCORED
from seatrial.analysis.loaded import Filter, LoadedJob, parse_filter
from seatrial.errors import UsageError
from seatrial.model.evaluation import Judgment
from seatrial.model.review import ReviewEntry, Sampling, not_taken_back
from seatrial.review.queue import stratum_of
from seatrial.review.verdicts import TrialReview, review_of
from seatrial.stats.corrected import (
    Confusion,
    CorrectedRate,
    Reviewed,
    confusion_of,
    labels_needed,
    prediction_powered,
    rogan_gladen,
)
from seatrial.store.index import TrialEntry


@dataclass(frozen=True, slots=True)
class ReviewCase:
    """One finished trial of a job and its reviews; most trials have none."""

    job: LoadedJob
    trial: TrialEntry
    entries: Sequence[ReviewEntry]
    review: TrialReview

    @property
    def is_scored(self) -> bool:
        return self.trial.outcome in SCORED

    @property
    def passed(self) -> bool:
        """Whether the verifier says that it passed."""
        return self.trial.outcome == "pass"

    @property
    def people_passed(self) -> bool | None:
        """Whether people say so, None where they have no common verdict."""
        return None if self.review.verdict is None else self.review.verdict is Judgment.PASS

    @property
    def sampling(self) -> Sampling | None:
        """How it was drawn for its first verdict, None where somebody looked at it on purpose."""
        first = next(iter(not_taken_back(self.entries)), None)
        return first.sampling if first else None

    @property
    def probability(self) -> float | None:
        """How likely it was to be drawn, None where somebody looked at it on purpose."""
        return self.sampling.probability if self.sampling else None

    @property
    def stratum(self) -> str:
        """What it is drawn from, or was."""
        return stratum_of(self.trial, self.entries, self.job.threshold, self.job.doubted_by_judges)


def cases_of(jobs: Iterable[LoadedJob]) -> list[ReviewCase]:
    return [
        ReviewCase(job, trial, entries, review_of(trial.trial_id, entries))
        for job in jobs
        for trial in job.trials
        for entries in [job.reviews.get(trial.trial_id, [])]
    ]


# The verifier against people, or a judge.


@dataclass(frozen=True, slots=True)
class Dissent:
    """A trial of which the verifier and people say different things."""

    job: str
    trial_id: str
    task_id: str
    agent: str
    reward: float | None
    people: Judgment


@dataclass(frozen=True, slots=True)
class VerifierFigures:
    """What people make of a verifier's verdicts. `pass_rate` is the verifier's, over all trials that it judged.

    `sampled` says that trials were drawn for review with known chances, so that shares and rates are weighted by them;
    otherwise those that were reviewed are taken for a fair sample. `unseen` trials could not be drawn, or none like
    them was reviewed so far. `powered` and `gladen` are what people would have found had they looked at every trial,
    None where too little is known; unseen trials count there as the verifier judged them, and their intervals allow for
    all of them to be otherwise.
    """

    judged: int
    pass_rate: float | None
    confusion: Confusion
    sampled: bool
    unseen: int
    powered: CorrectedRate | None
    gladen: CorrectedRate | None
    wrong_passes: tuple[Dissent, ...]
    wrong_fails: tuple[Dissent, ...]


Verdict = Callable[[ReviewCase], bool | None]
"""Whether somebody passes a trial, None where they have no verdict on it."""


def by_verifier(case: ReviewCase) -> bool | None:
    return case.passed if case.is_scored else None


def by_people(case: ReviewCase) -> bool | None:
    return case.people_passed


class _Pair(NamedTuple):
    """A trial with the verdict that is tested, and that of people, where they have one."""

    case: ReviewCase
    passed: bool
    people: bool | None

    @property
    def group(self) -> Hashable:
        return self.case.job.path, self.case.trial.task_id


def verifier_figures(
    cases: Iterable[ReviewCase], level: float = 0.95, tested: Verdict = by_verifier, people: Verdict = by_people
) -> VerifierFigures:
    """Compare the verifier, or another who is `tested`, with people on the trials that both judged."""
    verdicts = ((case, tested(case)) for case in cases)
    scored = [_Pair(case, passed, people(case)) for case, passed in verdicts if passed is not None]
    reviewed, unseen = _weighted(scored)
    left = {id(pair.case) for pair in unseen}
    judged = [(pair.passed, pair.group) for pair in scored if id(pair.case) not in left]
    confusion = confusion_of(reviewed, level)
    both = [pair for pair in scored if pair.people is not None]
    return VerifierFigures(
        judged=len(scored),
        pass_rate=sum(pair.passed for pair in scored) / len(scored) if scored else None,
        confusion=confusion,
        sampled=any(pair.case.probability is not None for pair in both),
        unseen=len(unseen),
        powered=_of_all(prediction_powered(judged, reviewed, level), unseen),
        gladen=_of_all(rogan_gladen(judged, confusion, level), unseen),
        wrong_passes=_dissents(pair for pair in both if pair.passed and not pair.people),
        wrong_fails=_dissents(pair for pair in both if pair.people and not pair.passed),
    )


def needed_labels(cases: Iterable[ReviewCase], width: float, level: float, tested: Verdict) -> int | None:
    """How many trials people have to label for a corrected rate whose interval is no wider; see `labels_needed`."""
    verdicts = ((case, tested(case)) for case in cases)
    scored = [_Pair(case, passed, case.people_passed) for case, passed in verdicts if passed is not None]
    return labels_needed([(pair.passed, pair.group) for pair in scored], _weighted(scored)[0], width, level)


def _weighted(scored: Sequence[_Pair]) -> tuple[list[Reviewed], list[_Pair]]:
    """Trials that people judged too, each with how many it stands for; and those for which none of them stands.

    One that was drawn stands for others of its stratum, by its chance, and all that were reviewed of a stratum together
    for the whole of it: people rarely get to the end of a queue, and less urgent strata come last. One that was looked
    at on purpose stands for itself; where all were, they are taken for a sample.
    """
    filters = _filters(scored)
    chosen = [pair for pair in scored if pair.people is not None and _filter(pair.case) is None]
    itself = {id(pair.case) for pair in chosen}
    strata: defaultdict[Hashable, list[_Pair]] = defaultdict(list)
    for pair in scored:
        if id(pair.case) not in itself:
            case = pair.case
            strata[case.job.path, case.stratum, *(_fits(case, each) for each in filters)].append(pair)
    found, unseen = [_reviewed(pair, 1.0) for pair in chosen], []
    for pairs in strata.values():
        drawn = [(pair, 1.0 / (pair.case.probability or 1.0)) for pair in pairs if pair.people is not None]
        each = len(pairs) / math.fsum(weight for _, weight in drawn) if drawn else 0.0
        found += [_reviewed(pair, weight * each) for pair, weight in drawn]
        unseen += [] if drawn else pairs
    return found, unseen if len(found) > len(chosen) else []


def _filters(scored: Iterable[_Pair]) -> list[Filter]:
    """The filters of the queues from which trials were drawn: who fits one had another chance than who does not."""
    found = (_filter(pair.case) for pair in scored if pair.people is not None)
    return list(dict.fromkeys(each for each in found if each))


def _filter(case: ReviewCase) -> Filter | None:
    """What could be drawn when a trial was, None where it was not, or where nobody can tell."""
    try:
        return parse_filter(*filter(None, [case.sampling.where])) if case.sampling else None
    except UsageError:
        return None


def _fits(case: ReviewCase, wanted: Filter) -> bool:
    return wanted.fits(case.trial, case.job.labels_of(case.trial.task_id))


def _of_all(rate: CorrectedRate | None, unseen: Sequence[_Pair]) -> CorrectedRate | None:
    """A rate with the trials of which nobody knows anything but what the verifier says."""
    if rate is None or not unseen:
        return rate
    seen, trials = rate.trials, rate.trials + len(unseen)
    value = (rate.value * seen + sum(pair.passed for pair in unseen)) / trials
    low, high = rate.low * seen / trials, (rate.high * seen + len(unseen)) / trials
    return replace(rate, value=value, low=low, high=high, trials=trials)


def _reviewed(pair: _Pair, weight: float) -> Reviewed:
    return Reviewed(pair.passed, bool(pair.people), weight, pair.group)


def _dissents(pairs: Iterable[_Pair]) -> tuple[Dissent, ...]:
    return tuple(_dissent(pair) for pair in sorted(pairs, key=lambda pair: _place(pair.case)))


def _dissent(pair: _Pair) -> Dissent:
    trial, people = pair.case.trial, Judgment.PASS if pair.people else Judgment.FAIL
    return Dissent(pair.case.job.name, trial.trial_id, trial.task_id, trial.agent, trial.reward, people)


def _place(case: ReviewCase) -> tuple[str, str, str]:
    return case.job.name, case.trial.task_id, case.trial.trial_id
