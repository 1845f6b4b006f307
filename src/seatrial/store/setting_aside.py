"""Trials that are run again: what is in their places is moved aside first, and nothing is ever removed."""

import os
from collections.abc import Collection
from itertools import count
from pathlib import Path

from seatrial.errors import JobError
from seatrial.model.record import TrialRecord
from seatrial.store.census import Records
from seatrial.store.draft import move_to_tries
from seatrial.store.files import storing, sync_folder

DAMAGED = "damaged"


def refuse_result(record: TrialRecord) -> None:
    """Raises JobError for a trial that counts: a result is never run again until it suits."""
    if record.outcome not in ("infrastructure_error", "cancelled") and not record.never_ran:
        raise JobError(
            f"{record.trial_id}: ended as {record.outcome}, which counts; only what the infrastructure failed is run "
            "again, and agents that never really ran"
        )


def move_to_damaged(job: Path, sources: Records, trial_ids: Collection[str]) -> None:
    """Move what is in the place of these trials' records to `damaged/`, with later revisions."""
    aside = job / DAMAGED
    with storing(aside):
        aside.mkdir(exist_ok=True)
        for trial_id in trial_ids:
            for revision in sources.revisions.of(trial_id):
                sources.place(trial_id, revision).rename(_free_name(aside, trial_id))
            if os.path.lexists(job / "trials" / trial_id):  # else its folder is gone
                (job / "trials" / trial_id).rename(_free_name(aside, trial_id))
        sync_folder(aside)
        sync_folder(job / "trials")
    sources.revisions.forget()


def move_trial_to_tries(job: Path, sources: Records, record: TrialRecord) -> None:
    """Move a trial to the tries; its later revisions go with it, inside its folder."""
    folder = job / "trials" / record.trial_id
    with storing(job / "tries"):
        for revision in sources.revisions.of(record.trial_id):
            sources.place(record.trial_id, revision).rename(folder / f"revision-{revision}")
        sources.revisions.forget()
        move_to_tries(folder, str(job), record.trial_id, record.tries)
        sync_folder(job / "tries")
        sync_folder(job / "trials")


def _free_name(folder: Path, name: str) -> Path:
    """A name in a folder that nothing has yet; renaming would replace a file, and nothing may get lost."""
    names = (folder / f"{name}.{number}" for number in count(1))
    return next(path for path in names if not os.path.lexists(path))
