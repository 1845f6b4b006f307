"""Reviews to write down quickly: who said what of which trial, and a job that has them."""

import datetime as dt
from itertools import count
from typing import Any

from seatrial.analysis.loaded import LoadedJob, load_job
from seatrial.model.evaluation import Annotation, Judgment
from seatrial.model.review import Retraction, ReviewEntry, Sampling
from seatrial.store.job_store import JobStore
from tests.cli.job_folders import make_job, record

NOON = dt.datetime(2026, 5, 4, 12, tzinfo=dt.UTC)
NEXT_DAY = NOON + dt.timedelta(days=1)
_LETTERS = {"p": Judgment.PASS, "f": Judgment.FAIL, "d": Judgment.DEFER}
_OF_ANNOTATION = ("categories", "notes", "reviewer_discipline")
_numbers = count(1)


def said(trial_id: str, reviewer: str, judgment: str, minute: int | None = None, **more: Any) -> ReviewEntry:
    """A verdict, in a word or by its first letter, with what else an entry has.

    Each is a second later than the one that was made before it, or of a `minute` of the next day.
    """
    number = next(_numbers)
    when = NOON + dt.timedelta(seconds=number) if minute is None else NEXT_DAY + dt.timedelta(minutes=minute)
    parts = {name: more.pop(name) for name in _OF_ANNOTATION if name in more}
    meant = _LETTERS.get(judgment) or Judgment(judgment)
    annotation = Annotation(reviewer_id=reviewer, timestamp=when, judgment=meant, **parts)
    return ReviewEntry(**{"id": f"{number:016x}", "trial_id": trial_id, "annotation": annotation, **more})


def taken_back(entry: ReviewEntry) -> ReviewEntry:
    """That its reviewer takes a verdict back, a second after it."""
    assert entry.annotation
    when = entry.annotation.timestamp + dt.timedelta(seconds=1)
    gone = Retraction(entry=entry.key, reviewer_id=entry.reviewer_id, timestamp=when)
    return ReviewEntry(id=f"{next(_numbers):016x}", trial_id=entry.trial_id, retraction=gone)


def drawn(stratum: str, probability: float) -> Sampling:
    return Sampling(stratum=stratum, probability=probability)


def reviewed_job(folder: Any, rewards: dict[str, float], *entries: ReviewEntry) -> LoadedJob:
    """A job with a trial `<task>.oracle.1` for each task, and these reviews. Its folder's name is its id too."""
    records = [record(task, reward, job_id=folder.name) for task, reward in rewards.items()]
    store: JobStore = make_job(folder, *records)
    store.update(store.file.model_copy(update={"id": folder.name}))
    if entries:
        store.add_reviews(*entries)
    return load_job(folder)
