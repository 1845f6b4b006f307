"""A job's folder: what is in it, who may write to it, and what has been finished.

    job.json               the spec, and the lock of what it meant
    trials/<trial id>/     a finished trial: record.json beside everything the trial left
    tries/<trial id>.<n>/  a try that the machinery failed and that was repeated
    annotations.jsonl      what reviewers said
    index.jsonl            a cache of the records
    .drafts/  .lock        trials being written; who is at work

A trial exists once its folder is in trials/, and never before.
"""

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path

from pydantic import ValidationError

from seatrial.errors import JobError, StoreError
from seatrial.model.base import to_json
from seatrial.model.job import JobFile, trial_id
from seatrial.model.record import TrialRecord
from seatrial.store.draft import RECORD, Draft, move_to_tries
from seatrial.store.files import read_plain, remove_tree, replace_file, storing, sync_folder, write_all
from seatrial.store.index import TrialEntry, complete, entry_of, forget_line, read_lines, write_line
from seatrial.store.job_file import JOB, ensure_free, make_folders, read_job_file
from seatrial.store.lock import locked
from seatrial.store.seal import SEAL, add_seal, has_seal

_FOLDERS = ("trials", "tries", ".drafts")
_MAX_RECORD_BYTES = 256 * 2**20
_MAX_INDEX_BYTES = 2**31


class JobStore:
    """One job's folder."""

    def __init__(self, path: Path, file: JobFile, content: bytes) -> None:
        self.path = path
        self.file = file
        self._content = content

    @classmethod
    def create(cls, folder: Path, file: JobFile) -> "JobStore":
        """A new job. Raises JobError when the folder holds one already, or something else."""
        ensure_free(folder)
        content = to_json(file)
        make_folders(folder, _FOLDERS)
        with storing(folder), locked(folder):
            ensure_free(folder)
            made = cls(folder, file, content)
            made.make_own()
            replace_file(folder / JOB, content)
        return made

    @classmethod
    def open(cls, folder: Path) -> "JobStore":
        """The job in a folder. Raises JobError that says why there is none to be read."""
        return cls(folder, *read_job_file(folder))

    @property
    def exists(self) -> bool:
        """Whether the job is there; one that was refused before its first trial is not."""
        return (self.path / JOB).exists()

    @property
    def is_own(self) -> bool:
        """Whether job.json is as this user wrote it, on this machine; see `seal.py`."""
        return has_seal(self.path, self._content)

    def make_own(self) -> None:
        """Vouch for job.json as it is, so that nobody asks again; where that cannot be kept, it will be asked again."""
        with suppress(OSError):
            add_seal(self.path, self._content)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Be the only one who carries out this job. Raises JobError when someone else does.

        What a crash left half done is cleared away first.
        """
        with locked(self.path):
            with storing(self.path):
                for name in _FOLDERS:
                    self._refuse_link(self.path / name)
                    (self.path / name).mkdir(exist_ok=True)
                for draft in (self.path / ".drafts").iterdir():
                    remove_tree(draft)
            self._mend_index()
            yield

    def update(self, file: JobFile) -> None:
        """Replace job.json, all at once. It stays this user's own if it was."""
        content = to_json(file)
        with storing(self.path / JOB):
            if self.is_own:
                add_seal(self.path, content)
            replace_file(self.path / JOB, content)
        self.file, self._content = file, content

    def discard(self) -> None:
        """Remove a job that has no trial, by whoever has its lock, so that the folder is free again."""
        if self.finished():
            return
        with suppress(OSError):
            for name in (JOB, SEAL, "index.jsonl", ".lock"):
                (self.path / name).unlink(missing_ok=True)
            for name in _FOLDERS:
                remove_tree(self.path / name)
            self.path.rmdir()

    def _refuse_link(self, path: Path) -> None:
        # What is in a stranger's folder is cleared away and written to, and must not be somewhere else.
        if path.is_symlink():
            raise JobError(f"{path}: is a link to {str(path.readlink())!r}, expected a folder; put one in its place")

    def finished(self) -> set[str]:
        """The ids of all trials that have a record."""
        self._refuse_link(self.path / "trials")
        with storing(self.path / "trials"):
            # Names with a dot in front are not ours: desktops and network file systems leave them.
            return {name for name in os.listdir(self.path / "trials") if name[0] != "."}  # noqa: PTH208 - names only

    def tries(self) -> dict[str, int]:
        """How many tries of each trial the machinery has failed so far; trials without one are not in it."""
        found: dict[str, int] = {}
        with storing(self.path / "tries"), suppress(FileNotFoundError):
            for name in os.listdir(self.path / "tries"):  # noqa: PTH208 - names only
                trial, _, number = name.rpartition(".")
                if trial and number.isdecimal():
                    found[trial] = max(found.get(trial, 0), int(number))
        return found

    @contextmanager
    def draft(self, trial_id: str) -> Iterator[Draft]:
        """A folder to write a trial into; it is gone after the block unless it was committed."""
        path = self.path.joinpath(".drafts", f"{trial_id}.{secrets.token_hex(4)}")
        with storing(path):
            path.mkdir()
        draft = Draft(path, trial_id, str(self.path), self._note)
        try:
            yield draft
        finally:
            if not draft.committed:
                with storing(path):
                    remove_tree(path)

    def record(self, trial_id: str) -> TrialRecord:
        """A trial's record. Raises JobError with similar ids when there is none, StoreError when it is damaged."""
        path = self.trial_folder(trial_id) / RECORD
        with storing(path):
            content = read_plain(path, _MAX_RECORD_BYTES)
        try:
            return TrialRecord.model_validate_json(content)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the file"
            raise StoreError(
                f"{path}: is damaged or of another version ({where}: {first['msg']}); "
                f"move the folder {path.parent.name} out of the job, then resume to run the trial again"
            ) from None

    def trial_folder(self, trial_id: str) -> Path:
        """Where everything about a finished trial is. Raises JobError with similar ids when there is no such trial."""
        folder = self.path / "trials" / trial_id
        if trial_id in ("", ".", "..") or "/" in trial_id or "\0" in trial_id or not folder.is_dir():
            raise JobError(f"{self.path}: there is no finished trial {trial_id!r}; {self._similar(trial_id)}")
        return folder

    def entries(self) -> list[TrialEntry]:
        """All finished trials in the order of their ids. Raises StoreError when the record of one is damaged."""
        finished = self.finished()
        return complete(read_lines(self._read_index()), finished, self._read_entry)

    def set_aside(self, trial_id: str) -> None:
        """Move a trial that the machinery failed, or whose agent never really ran, to the tries, to be run again.

        Raises JobError for any other trial: a result is never run again until it suits.
        """
        record = self.record(trial_id)
        if record.outcome not in ("infrastructure_error", "cancelled") and not record.never_ran:
            raise JobError(
                f"{trial_id}: ended as {record.outcome}, which counts; only what the infrastructure failed is run "
                "again, and agents that never really ran"
            )
        # The index first: after a crash in between, the record is simply read again.
        with storing(self.path / "index.jsonl"):
            self._append_index(forget_line(trial_id))
        with storing(self.path / "tries"):
            move_to_tries(self.trial_folder(trial_id), str(self.path), trial_id, record.tries)
            sync_folder(self.path / "tries")
            sync_folder(self.path / "trials")

    def _similar(self, wanted: str) -> str:
        finished = sorted(self.finished())
        if not finished:
            return "the job has no finished trial yet"
        near = [name for name in finished if wanted and wanted in name][:3] or get_close_matches(wanted, finished)
        return f"similar: {', '.join(near)}" if near else f"for example there is {finished[0]}"

    def _note(self, records: Sequence[TrialRecord]) -> None:
        # The trials are stored already; the cache is no reason to say they were not.
        with suppress(OSError):
            self._append_index(b"".join(write_line(self._entry(record)) for record in records))

    def _entry(self, record: TrialRecord) -> TrialEntry:
        return entry_of(record, self._agent(record))

    def _agent(self, record: TrialRecord) -> str:
        """What the job calls the record's agent: records know its name, only the job tells two of a name apart."""
        titles = [agent.title for agent in self.file.spec.agents]
        if len(titles) == 1:
            return titles[0]
        ids = (title for title in titles if trial_id(record.task.id, title, record.attempt) == record.trial_id)
        return next(ids, record.agent.name)

    def _read_entry(self, trial_id: str) -> TrialEntry:
        return self._entry(self.record(trial_id))

    def _read_index(self) -> bytes:
        try:
            return read_plain(self.path / "index.jsonl", _MAX_INDEX_BYTES)
        except OSError:
            return b""

    def _append_index(self, lines: bytes) -> None:
        file = os.open(
            self.path / "index.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666
        )
        try:
            write_all(file, lines)
        finally:
            os.close(file)

    def _mend_index(self) -> None:
        """Add the lines a crash has kept from being written, so that only the next reader pays for them."""
        content = self._read_index()
        missing = self.finished() - read_lines(content).keys()
        with suppress(StoreError, OSError):
            lines = b"".join(write_line(self._read_entry(name)) for name in sorted(missing))
            torn = content and not content.endswith(b"\n")
            if lines or torn:
                self._append_index((b"\n" if torn else b"") + lines)
