"""A trial's folder while it is being written, the one step that makes it count, and its later revisions.

Commits are made together where several are due: the folder of results is then seen to the disk once for all of them.
What several trials of a job have in common is on the disk once.
"""

import errno
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Literal

from seatrial.errors import StoreError
from seatrial.model.base import to_json
from seatrial.model.record import TrialRecord
from seatrial.store.files import create_file, remove_tree, store_error, storing, sync_files, sync_folder

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

    def discard(self) -> None:
        """Remove the folder unless it was committed. Raises StoreError."""
        if not self.committed:
            with storing(self.path):
                remove_tree(self.path)

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
        share_contents(self.draft.path, self.draft.job)
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


# Later revisions: verdicts on the same end state, beside the first one, which stays as it is. The newest one counts. A
# job that was never regraded has no folder of them, which costs one look.

REVISIONS = "revisions"
LAST_REVISION = 999_999_999
_NUMBER = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)  # up to the last one
_Listing = Mapping[str, Sequence[int]]


def revision_name(trial_id: str, revision: int) -> str:
    """How a revision is called, in `parent` and as a folder: the first one is the trial itself."""
    return f"{trial_id}.{revision}" if revision else trial_id


@dataclass(eq=False, slots=True)
class Revisions:
    """Which later revisions there are. The folder is listed again only when something was added to it."""

    folder: Path
    _stamp: int | None = None
    _found: _Listing = field(default_factory=dict)

    def numbers(self) -> _Listing:
        """The numbers of the later revisions of each trial that has some, in order. Raises OSError."""
        try:
            stamp = os.stat(self.folder, follow_symlinks=False).st_mtime_ns  # noqa: PTH116 - asked for every record
        except FileNotFoundError:
            return {}
        if stamp != self._stamp:
            self._found, self._stamp = self._list(), stamp
        return self._found

    def forget(self) -> None:
        """List them again next time: clocks of file systems are too coarse to tell two changes in a row."""
        self._stamp = None

    def of(self, trial_id: str) -> Sequence[int]:
        """The numbers of the later revisions of a trial, in order. Raises OSError."""
        return self.numbers().get(trial_id, ())

    def _list(self) -> _Listing:
        found: dict[str, list[int]] = {}
        for name in os.listdir(self.folder):  # noqa: PTH208 - names only
            trial, _, number = name.rpartition(".")
            if trial and _NUMBER.fullmatch(number):
                found.setdefault(trial, []).append(int(number))
        return {trial: sorted(numbers) for trial, numbers in found.items()}


# Large files of end states, which several trials may have in common. Each trial's folder has a name of its own for
# each, so a folder that is copied, or a job's `contents/` that is removed, takes nothing from the others.

_POOL = "contents"
_KEPT = "snapshot.files"


def share_contents(folder: Path, job: str) -> None:
    """Let the large files of end states below a trial's folder be those which the job has already, by their digests.

    Where a file system has no second names for a file, everything stays as it is.
    """
    for path in _contents(folder):
        with suppress(OSError):
            _share(path, Path(job, _POOL, path.name))


def _contents(folder: Path) -> Iterator[Path]:
    steps, places = f"{folder}/steps", [str(folder)]
    with suppress(OSError):
        places += [each.path for each in os.scandir(steps)] if os.path.isdir(steps) else []  # noqa: PTH112 - most have none
    for kept in [f"{place}/{_KEPT}" for place in places]:
        if os.path.isdir(kept):  # noqa: PTH112 - as above
            with suppress(OSError):
                yield from list(Path(kept).iterdir())


def _share(path: Path, known: Path) -> None:
    known.parent.mkdir(exist_ok=True)
    try:
        known.hardlink_to(path)
    except FileExistsError:
        if not known.samefile(path) and known.stat().st_size == path.stat().st_size:
            second = path.with_suffix(".known")
            second.hardlink_to(known)
            second.replace(path)
