"""A trial's folder while it is being written, and the one step that makes it count.

Commits are made together where several are due: the folder of results is then seen to the disk once for all of them.
"""

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Literal

from seatrial.errors import StoreError
from seatrial.model.base import to_json
from seatrial.model.record import TrialRecord
from seatrial.store.contents import share_contents
from seatrial.store.files import create_file, store_error, sync_files, sync_folder
from seatrial.store.revisions import REVISIONS, revision_name

RECORD = "record.json"
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST)

Syncing = Literal["now", "later"]
"""When what is written is seen to the disk: with its commit, or later by the caller, before anybody is told of it."""


@dataclass(eq=False, slots=True)
class Draft:
    """A folder nobody else looks into. `commit` moves it to where results are; until then it does not exist."""

    path: Path
    trial_id: str
    job: str
    note: Callable[[Sequence[TrialRecord]], None]
    job_id: str | None = None
    revision: int = 0
    committed: bool = False

    @property
    def target(self) -> str:
        """Where it goes when it counts: among the trials, or among their later revisions."""
        if self.revision:
            return f"{self.job}/{REVISIONS}/{revision_name(self.trial_id, self.revision)}"
        return f"{self.job}/trials/{self.trial_id}"

    def commit(self, record: TrialRecord, *, counts: bool = True) -> None:
        """Store the folder with its record; `counts=False` keeps it as a try that failed and will be repeated.

        Raises StoreError, also when someone has committed the trial before: the first record is the one that stays.
        """
        commit = Commit(self, record, counts)
        commit_together([commit])
        if commit.error:
            raise commit.error


@dataclass(eq=False, slots=True)
class Commit:
    """A draft that is due, with its record; one that does not count is kept among the tries."""

    draft: Draft
    record: TrialRecord
    counts: bool = True
    syncing: Syncing = "now"
    error: StoreError | None = None
    _folders: Sequence[str] = ()

    def write(self) -> None:
        """Complete the folder, and see its files to the disk."""
        if self.record.trial_id != self.draft.trial_id:
            raise StoreError(f"the record of {self.record.trial_id!r} was given for the trial {self.draft.trial_id!r}")
        if self.record.revision != self.draft.revision:
            raise StoreError(f"revision {self.record.revision} was given for revision {self.draft.revision}")
        if self.record.job_id is None and self.draft.job_id is not None:
            self.record = self.record.model_copy(update={"job_id": self.draft.job_id})
        share_contents(self.draft.path, Path(self.draft.job))
        if self.syncing == "later":
            (self.draft.path / RECORD).write_bytes(to_json(self.record))
            return
        self._folders = sync_files(str(self.draft.path))
        create_file(f"{self.draft.path}/{RECORD}", to_json(self.record))

    def settle(self) -> None:
        """See the names of its files to the disk."""
        for folder in self._folders:
            sync_folder(folder)

    def move(self) -> None:
        """Put the folder in its place, at once and whole."""
        draft = self.draft
        if not self.counts:
            move_to_tries(draft.path, draft.job, draft.trial_id, self.record.tries)
        else:
            try:
                # The system refuses to put a folder over another that has something in it: the first commit wins.
                os.rename(draft.path, draft.target)  # noqa: PTH104 - on the path of every trial
            except OSError as error:
                if error.errno in _TAKEN:
                    raise StoreError(f"{draft.target}: this trial has a record already, which is kept") from None
                raise
        draft.committed = True

    @property
    def shelf(self) -> str:
        """The folder that it is moved to."""
        return os.path.dirname(self.draft.target) if self.counts else f"{self.draft.job}/tries"  # noqa: PTH120 - text

    def confirm(self) -> None:
        """See its place to the disk, for it and all that were moved before."""
        if self.syncing == "now":
            sync_folder(self.shelf)


def commit_together(commits: Sequence[Commit]) -> None:
    """Commit several drafts of one job, each on its own; `error` says of each what went wrong, if anything.

    One step for all, then the next: most of the waiting for the disk is then done once for all of them.
    """
    for step in (Commit.write, Commit.settle, Commit.move):
        for commit in commits:
            _do(step, commit)
    last = {commit.shelf: commit for commit in commits if not commit.error}
    for commit in last.values():
        _do(Commit.confirm, commit)
        if commit.error:
            for other in commits:
                other.error = other.error or commit.error
    if stored := [commit.record for commit in commits if commit.counts and not commit.error]:
        commits[0].draft.note(stored)


def _do(step: Callable[[Commit], None], commit: Commit) -> None:
    if commit.error:
        return
    try:
        step(commit)
    except StoreError as error:
        commit.error = error
    except OSError as error:
        commit.error = store_error(commit.draft.path, error)


def move_to_tries(folder: Path, job: str, trial_id: str, number: int) -> None:
    """Keep a folder as the try of that number of a trial, or the next number that is free."""
    for free in count(number):
        try:
            folder.rename(f"{job}/tries/{trial_id}.{free}")
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
        else:
            return
