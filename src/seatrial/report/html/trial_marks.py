"""The marks of a trial: what links ask for, and what a list says beside it."""

from collections.abc import Sequence

from seatrial.analysis.tally import SCORED
from seatrial.analysis.taxonomy import is_unclassified
from seatrial.model.review import ReviewEntry, not_taken_back
from seatrial.review.states import ReviewState, is_decided, review_of
from seatrial.store.index import TrialEntry

UNCLASSIFIED = "unclassified"
"""It is asked for by links and shown nowhere: most failures that nobody has looked at have it."""

REVIEWED = "reviewed"
"""People have a verdict on it; not where they disagree, or all defer."""

REVIEWED_BY_SEVERAL = "reviewed by several"
STEP = "step: "
_UNDECIDED: dict[ReviewState, str] = {"needs": "disagree", "contested": "contested", "open": "deferred"}


def people_mark(verdict: str) -> str:
    """The mark of trials that people pass, or fail."""
    return f"people: {verdict}"


def marks_of(trial: TrialEntry, entries: Sequence[ReviewEntry] = ()) -> tuple[str, ...]:
    """What links ask for: classified failures, warnings, a disputed verdict, the step that failed, and `entries`,
    which is what people say of it."""
    step = (f"{STEP}{trial.failed_step}",) if trial.failed_step else ()
    disputed = ("disputed",) if trial.disputed_reward is not None else ()
    unknown = (UNCLASSIFIED,) if _is_unexplained(trial) else ()
    return (*trial.tags, *trial.warnings, *disputed, *step, *unknown, *(_people(trial, entries) if entries else ()))


def notes_of(trial: TrialEntry, entries: Sequence[ReviewEntry] = ()) -> tuple[str, ...]:
    """What a list says beside a trial: its marks, and why it could not be run."""
    marks = tuple(mark for mark in marks_of(trial, entries) if mark != UNCLASSIFIED)
    return (*marks, trial.failure) if trial.failure else marks


def _is_unexplained(trial: TrialEntry) -> bool:
    return trial.outcome in SCORED and trial.outcome != "pass" and is_unclassified(trial.tags)


def _people(trial: TrialEntry, entries: Sequence[ReviewEntry]) -> tuple[str, ...]:
    if not not_taken_back(entries):
        return ()
    found = review_of(trial.trial_id, entries)
    several = (REVIEWED_BY_SEVERAL,) if sum(map(is_decided, found.first.values())) > 1 else ()
    if found.verdict is None:
        return (*several, people_mark(_UNDECIDED[found.state]))
    return (REVIEWED, *several, people_mark(found.verdict.value))
