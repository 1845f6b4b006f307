"""Where the tries of trials are kept: each in a job's folder with its record, or in none that outlives it.

What a full machine refuses is written when there is room again (`HostCapacity`). Results are written beside the event
loop, for the disk makes one wait; what comes due meanwhile is written together, and so is what comes due in the same
turn of the loop. A thread that writes while the loop computes fights it for the interpreter at every system call, which
costs more than the writing; one that writes while all wait for it does not.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Protocol, Self, TypeVar

from seatrial.concurrency import finish
from seatrial.errors import HostExhaustedError, StoreFullError
from seatrial.model.events import Notice
from seatrial.model.record import TrialRecord
from seatrial.sandbox.host.watch import host_watch
from seatrial.sandbox.runs import Scratch
from seatrial.store.drafts import Commit, Draft, commit_together
from seatrial.store.job_store import JobStore
from seatrial.trial.events import Observer

T = TypeVar("T")


class OpenTry(NamedTuple):
    """One try of a trial under way."""

    folder: Path
    """Where its files go."""

    keep: "Keep"
    """Keeps it with its record; one that does not count is kept among the tries. Raises StoreError."""


class Keep(Protocol):
    """Keeps one try."""

    async def __call__(self, record: TrialRecord, *, counts: bool) -> None: ...


class Keeper(Protocol):
    """Keeps tries."""

    def open(self, trial_id: str) -> AbstractAsyncContextManager[OpenTry]:
        """A folder for one try, for the length of a block; gone after it unless the try was kept."""
        ...


# Waiting for room.

_PAUSE_SEC = 1.0  # a quota may refuse us although the file system has room: nothing tells when it no longer does


class HostCapacity(NamedTuple):
    """Waits while this machine lacks disk, memory or processes, `longest_sec` at most; then says how to `go_on`."""

    go_on: str
    longest_sec: float
    observe: Observer

    async def wait(self) -> None:
        """Return when this machine has what trials need. Raises HostExhaustedError when it lacks it for too long."""
        watch = host_watch()
        if (shortage := watch.shortage) is None:
            return
        self.observe(Notice(f"waiting: {shortage}; trials go on when there is room again"))
        try:
            await watch.wait_for_room(self.longest_sec)
        except HostExhaustedError as error:
            raise HostExhaustedError(f"{error}. Make room, then go on with {self.go_on}") from None

    async def write(self, write: Callable[[], Awaitable[T]]) -> T:
        """Write something to the job's folder, as soon as there is room. Raises StoreFullError if there never is."""
        deadline = time.monotonic() + self.longest_sec
        while True:
            try:
                return await write()
            except StoreFullError:
                if time.monotonic() > deadline:
                    raise
            await self.wait()
            await asyncio.sleep(_PAUSE_SEC)


# Writing.

_Answer = asyncio.Future[None]


class Writer:
    """One thread that commits drafts, for the length of a block."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "seatrial-store")
        self._due: list[tuple[Commit, _Answer]] = []
        self._busy = False

    def __enter__(self) -> Self:
        self._thread.submit(bool)  # a machine that has no room for the thread says so now, and not to the first trial
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown()

    async def commit(self, commit: Commit) -> None:
        """Return when the draft is stored; raises StoreError. When cancelled, it is stored or not, but never half."""
        answer: _Answer = asyncio.get_running_loop().create_future()
        self._due.append((commit, answer))
        self._begin()
        try:
            await asyncio.shield(answer)
        except asyncio.CancelledError:
            # The thread may be at work in the folder, which the caller is about to remove.
            await finish(asyncio.wait((answer,)))
            raise
        if commit.error:
            raise commit.error

    def _begin(self) -> None:
        if self._busy or not self._due:
            return
        self._busy = True
        asyncio.get_running_loop().call_soon(self._write)

    def _write(self) -> None:
        batch, self._due = self._due, []
        work = asyncio.get_running_loop().run_in_executor(self._thread, commit_together, [due for due, _ in batch])
        work.add_done_callback(lambda done: self._end([answer for _, answer in batch], done))

    def _end(self, answers: list[_Answer], done: "asyncio.Future[None]") -> None:
        self._busy = False
        bug = done.exception()
        for answer in answers:
            if bug:
                answer.set_exception(bug)
            else:
                answer.set_result(None)
        self._begin()


# The keepers.


class StoreKeeper(NamedTuple):
    """Keeps tries in a job's folder, and waits for room there."""

    store: JobStore
    writer: Writer
    host: HostCapacity

    @asynccontextmanager
    async def open(self, trial_id: str, revision: int = 0) -> AsyncIterator[OpenTry]:
        """A draft of the trial, or of a revision of its record. Raises StoreError."""

        async def begin() -> Draft:
            return self.store.begin_draft(trial_id, revision)

        async def keep(record: TrialRecord, *, counts: bool) -> None:
            await self.host.write(lambda: self.writer.commit(Commit(draft, record, counts)))

        draft = await self.host.write(begin)
        try:
            yield OpenTry(draft.path, keep)
        finally:
            draft.discard()


class ScratchKeeper:
    """Keeps nothing: a record is all that is left of a try."""

    @asynccontextmanager
    async def open(self, trial_id: str) -> AsyncIterator[OpenTry]:
        with Scratch() as folder:
            yield OpenTry(folder, _forget)


async def _forget(record: TrialRecord, *, counts: bool) -> None:
    pass
