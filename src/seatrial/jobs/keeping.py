"""Where the tries of trials are kept: each in a job's folder with its record, or in none that outlives it."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from seatrial.jobs.room import Room
from seatrial.jobs.writer import Writer
from seatrial.model.record import TrialRecord
from seatrial.sandbox.scratch import Scratch
from seatrial.store.draft import Commit, Draft
from seatrial.store.job_store import JobStore


class OpenTry(Protocol):
    """One try of a trial under way."""

    @property
    def folder(self) -> Path:
        """Where its files go."""
        ...

    async def keep(self, record: TrialRecord, *, counts: bool) -> None:
        """Keep it with its record. One that does not count is kept among the tries. Raises StoreError."""
        ...


class Keeper(Protocol):
    """Keeps tries."""

    def open(self, trial_id: str) -> AbstractAsyncContextManager[OpenTry]:
        """A folder for one try, for the length of a block; gone after it unless the try was kept."""
        ...


@dataclass(frozen=True, slots=True)
class StoreKeeper:
    """Keeps tries in a job's folder, and waits for room there."""

    store: JobStore
    writer: Writer
    room: Room

    @asynccontextmanager
    async def open(self, trial_id: str) -> AsyncIterator[OpenTry]:
        """A draft of the trial. Raises StoreError."""
        with ExitStack() as stack:
            yield _StoredTry(self, await self.room.use(lambda: self._draft(stack, trial_id)))

    async def _draft(self, stack: ExitStack, trial_id: str) -> Draft:
        return stack.enter_context(self.store.draft(trial_id))


@dataclass(frozen=True, slots=True)
class _StoredTry:
    keeper: StoreKeeper
    draft: Draft

    @property
    def folder(self) -> Path:
        return self.draft.path

    async def keep(self, record: TrialRecord, *, counts: bool) -> None:
        keeper = self.keeper
        await keeper.room.use(lambda: keeper.writer.commit(Commit(self.draft, record, counts)))


class ScratchKeeper:
    """Keeps nothing: a record is all that is left of a try."""

    @asynccontextmanager
    async def open(self, trial_id: str) -> AsyncIterator[OpenTry]:
        """A folder that is gone with the block."""
        with Scratch() as folder:
            yield _PassingTry(folder)


@dataclass(frozen=True, slots=True)
class _PassingTry:
    folder: Path

    async def keep(self, record: TrialRecord, *, counts: bool) -> None:
        pass
