"""Keeps the index of a job in step with its records: lines for those that come, and none for those that go.

It is a cache, so whatever the disk refuses here is no reason to say that a trial was not stored.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from seatrial.model.record import TrialRecord
from seatrial.store.census import Census, Records
from seatrial.store.index import TrialEntry, forget_line
from seatrial.store.index_file import IndexFile


class IndexKeeper:
    """The index of the job in a folder, and its records."""

    def __init__(self, job: Path, records: Records) -> None:
        self._file = IndexFile(job)
        self._records = records

    def count(self) -> Census:
        """Count the records with the help of the index. Raises OSError for the folder of trials itself."""
        content = self._file.read()
        return self._records.count(content, self._file.read_checkpoint(content))

    def added_since(self, start: int, limit: int) -> tuple[list[TrialEntry], int]:
        """What lines from a byte on say, of at most so many bytes, and where they end."""
        content = self._file.read_from(start, limit)
        return self._records.believed(content), start + len(content)

    def note(self, records: Sequence[TrialRecord]) -> None:
        """Add the lines of records that are in their places."""
        with suppress(OSError):
            self._file.append(b"".join(map(self._records.line, records)))

    def forget(self, trial_id: str) -> None:
        """Keep the index from naming a trial whose folder is about to go. First: after a crash, its record is read."""
        with suppress(OSError):
            self._file.append(forget_line(trial_id))

    def mend(self, census: Census) -> None:
        """Add the lines a crash has kept from being written, so that only the next reader pays for them."""
        content = self._file.read()
        torn = bool(content) and not content.endswith(b"\n")
        if census.unindexed or torn:
            with suppress(OSError):
                self._file.append((b"\n" if torn else b"") + b"".join(census.unindexed))

    def mark(self) -> None:
        """Leave a checkpoint where much was added to the index, for all who will read it."""
        content = self._file.read()
        made = self._records.checkpoint(content, self._file.read_checkpoint(content))
        if made is not None:
            with suppress(OSError):
                self._file.write_checkpoint(made)
