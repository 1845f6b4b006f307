"""Trials beside what people say of them, from one job or several: what every figure about reviews is made of."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from seatrial.analysis.loaded import LoadedJob
from seatrial.analysis.tally import SCORED
from seatrial.model.annotation import Judgment
from seatrial.model.review import ReviewEntry, Sampling, not_taken_back
from seatrial.review.queue import stratum_of
from seatrial.review.states import TrialReview, review_of
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
        """Whether the verifier has judged it."""
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
        return stratum_of(self.trial, self.entries, self.job.threshold)


def cases_of(jobs: Iterable[LoadedJob]) -> list[ReviewCase]:
    """Every finished trial of jobs."""
    return [
        ReviewCase(job, trial, entries, review_of(trial.trial_id, entries))
        for job in jobs
        for trial in job.trials
        for entries in [job.reviews.get(trial.trial_id, [])]
    ]
