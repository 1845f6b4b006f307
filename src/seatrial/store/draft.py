"""A trial's folder while it is being written, and the one step that makes it count."""

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from seatrial.errors import StoreError
from seatrial.model.base import to_json
from seatrial.model.record import TrialRecord
from seatrial.store.files import storing, sync_folder, sync_tree, write_new

RECORD = "record.json"
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST)


@dataclass(eq=False, slots=True)
class Draft:
    """A folder nobody else looks into. `commit` moves it to where results are; until then it does not exist."""

    path: Path
    trial_id: str
    _job: Path
    _note: Callable[[TrialRecord], None]
    committed: bool = False

    def commit(self, record: TrialRecord, *, counts: bool = True) -> None:
        """Store the folder with its record; `counts=False` keeps it as a try that failed and will be repeated.

        Raises StoreError, and then nothing has changed; also when the trial has been committed by someone before.
        """
        if record.trial_id != self.trial_id:
            raise StoreError(f"the record of {record.trial_id!r} was given for the trial {self.trial_id!r}")
        with storing(self.path):
            write_new(f"{self.path}/{RECORD}", to_json(record))
            sync_tree(str(self.path))
        if counts:
            self._move_to_trials()
            self._note(record)
        else:
            move_to_tries(self.path, self._job, self.trial_id, record.tries)
            self.committed = True

    def _move_to_trials(self) -> None:
        target = self._job / "trials" / self.trial_id
        with storing(target):
            try:
                # The system refuses to put a folder over another that has something in it: the first commit wins.
                os.rename(self.path, target)  # noqa: PTH104 - on the path of every trial
            except OSError as error:
                if error.errno in _TAKEN:
                    raise StoreError(f"{target}: this trial has a record already, which is kept") from None
                raise
            self.committed = True
            sync_folder(target.parent)


def move_to_tries(folder: Path, job: Path, trial_id: str, number: int) -> None:
    """Keep a folder as the try of that number of a trial, or the next number that is free."""
    tries = job / "tries"
    with storing(tries):
        for free in count(number):
            try:
                folder.rename(tries / f"{trial_id}.{free}")
                break
            except OSError as error:
                if error.errno not in _TAKEN:
                    raise
        sync_folder(tries)
