"""Reviews to write down quickly: who said what of which trial, and a job that has them."""

import datetime as dt
from typing import Any

from seatrial.analysis.loaded import LoadedJob, load_job
from seatrial.model.annotation import Annotation, Judgment
from seatrial.model.review import Retraction, ReviewEntry
from seatrial.store.job_store import JobStore
from tests.cli.job_folders import make_job, record

NINE = dt.datetime(2026, 11, 17, 9, 0, tzinfo=dt.UTC)
_WORDS = {"p": Judgment.PASS, "f": Judgment.FAIL, "d": Judgment.DEFER}


def verdict(trial: str, who: str, what: str, minute: int = 0, **more: Any) -> ReviewEntry:
    """A verdict: `p`, `f` or `d`. Categories and notes may be given, and whatever an entry has."""
    said = {name: more.pop(name) for name in ("categories", "notes", "reviewer_discipline") if name in more}
    when = NINE + dt.timedelta(minutes=minute)
    annotation = Annotation(reviewer_id=who, timestamp=when, judgment=_WORDS[what], **said)
    return ReviewEntry(trial_id=trial, annotation=annotation, **more)


def taken_back(entry: ReviewEntry, minute: int = 60) -> ReviewEntry:
    """That the reviewer takes an entry back."""
    when = NINE + dt.timedelta(minutes=minute)
    taken = Retraction(entry=entry.key, reviewer_id=entry.reviewer_id, timestamp=when)
    return ReviewEntry(trial_id=entry.trial_id, retraction=taken)


def reviewed_job(folder: Any, rewards: dict[str, float], *entries: ReviewEntry) -> LoadedJob:
    """A job with a trial `<task>.oracle.1` for each task, and these reviews. Its folder's name is its id too."""
    records = [record(task, reward, job_id=folder.name) for task, reward in rewards.items()]
    store: JobStore = make_job(folder, *records)
    store.update(store.file.model_copy(update={"id": folder.name}))
    if entries:
        store.add_reviews(*entries)
    return load_job(folder)
