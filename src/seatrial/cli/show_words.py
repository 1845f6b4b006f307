"""What the words of `seatrial show` name: the folders of jobs, and perhaps a trial of the only one."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from seatrial.errors import JobError, UsageError
from seatrial.report.text import harmless
from seatrial.store.job_mark import JOB
from seatrial.store.job_store import JobStore

_OF_EVALUATIONS = ("rollouts.jsonl", "results.jsonl")


class NamedJobs(NamedTuple):
    """Folders of jobs; with a `trial` there is one."""

    jobs: tuple[Path, ...]
    trial: str | None = None


def read_words(words: Sequence[str]) -> NamedJobs:
    """A last word that is no folder with a job is a trial of the one job before it.

    Raises UsageError where several jobs stand before such a word, since it may be a folder that is missing.
    """
    *before, last = words
    if not before or _is_job(last):
        return NamedJobs(tuple(map(Path, words)))
    if len(before) > 1:
        raise UsageError(
            f"{harmless(last)!r} is no folder with a job, and a trial is shown of one job, not of {len(before)}; "
            "name folders that `seatrial run` made, or one of them and a trial"
        )
    return NamedJobs((Path(before[0]),), last)


def open_with_trial(named: NamedJobs, find: Callable[[JobStore, str], str]) -> tuple[JobStore, str]:
    """The job and the id of the trial of it. Raises JobError that says what else the word could have been."""
    store = JobStore.open(named.jobs[0])
    word = named.trial or ""
    try:
        return store, find(store, word)
    except JobError as error:
        if not _looks_like_folder(word):
            raise
        raise JobError(f"{harmless(word)!r} is no folder with a job, and {error}") from error


def is_evaluation(word: str) -> bool:
    """Whether a word names a folder with rollouts that are not the trials of a job: ours, or those of verifiers."""
    try:
        return not _is_job(word) and any((Path(word) / name).is_file() for name in _OF_EVALUATIONS)
    except (OSError, ValueError):
        return False


def _is_job(word: str) -> bool:
    try:
        return (Path(word) / JOB).is_file()
    except (OSError, ValueError):
        return False


def _looks_like_folder(word: str) -> bool:
    try:
        return "/" in word or Path(word).exists()
    except (OSError, ValueError):
        return False
