"""Writes results beside the event loop, for the disk makes one wait; what comes due meanwhile is written together.

So is what comes due in the same turn of the loop. A thread that writes while the loop computes fights it for the
interpreter at every system call, which costs more than the writing; one that writes while all wait for it does not.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

from seatrial.concurrency import finish
from seatrial.store.draft import Commit, commit_together

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
            await finish(_settled(answer))
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


async def _settled(answer: _Answer) -> None:
    await asyncio.wait((answer,))
