"""Taking in reviews from elsewhere: from a file, where every piece has to be sound, or from a copy of the job."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from seatrial.errors import JobError
from seatrial.model.review import ReviewEntry
from seatrial.review.exchange.api import Read
from seatrial.store.job_store import JobStore


@dataclass(frozen=True, slots=True)
class Sorted:
    """The entries that can be added, and what is wrong with the others: a line each, which names its place."""

    sound: tuple[ReviewEntry, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Merged:
    """What a copy of a job brought: entries that were new, how many were there already, and trials nobody knows."""

    added: tuple[ReviewEntry, ...]
    known: int
    unknown_trials: tuple[str, ...]


def sort_out(store: JobStore, pieces: Iterable[Read]) -> Sorted:
    """Tell what can be added to a job from what cannot: no review, one of another trial, or one that is there."""
    finished, seen = store.finished(), known_keys(store)
    sound: list[ReviewEntry] = []
    problems: list[str] = []
    for piece in pieces:
        problem = piece.said if isinstance(piece.said, str) else _problem(piece.said, finished, seen)
        if problem:
            problems.append(f"{piece.place}: {problem}")
        elif isinstance(piece.said, ReviewEntry):
            seen[piece.said.key] = f"on {piece.place}"
            sound.append(piece.said)
    return Sorted(tuple(sound), tuple(problems))


def merge_reviews(store: JobStore, other: JobStore, damaged: Callable[[str], None]) -> Merged:
    """Add what a copy of the job has and this one has not. Raises JobError for another job, and adds nothing then."""
    if store.file.id is None or store.file.id != other.file.id:
        raise JobError(
            f"{other.path}: holds another job ({other.file.spec.name}, id {other.file.id}) than {store.path} "
            f"({store.file.spec.name}, id {store.file.id}); only copies of one job can be merged"
        )
    finished, known = store.finished(), known_keys(store)
    every = [entry for entries in other.reviews(damaged).values() for entry in entries]
    new = [entry for entry in every if entry.key not in known]
    fitting = {entry.key: entry for entry in new if entry.trial_id in finished}
    unknown = sorted({entry.trial_id for entry in new} - finished)
    if fitting:
        store.add_reviews(*fitting.values())
    return Merged(tuple(fitting.values()), len(every) - len(new), tuple(unknown))


def known_keys(store: JobStore) -> dict[str, str]:
    """The keys of all entries that a job has, each with where it is."""
    return {entry.key: "in the journal" for entries in store.reviews().values() for entry in entries}


def _problem(entry: ReviewEntry, finished: Collection[str], seen: dict[str, str]) -> str | None:
    if entry.trial_id not in finished:
        return f"the job has no finished trial {entry.trial_id!r}"
    if entry.key in seen:
        return f"the same review is there already, {seen[entry.key]}"
    return None
