"""News on their way to the coordinator: in order, numbered, and kept until it says that it has them.

Each message costs both sides more than what is in it. What is only to be shown waits a little for company.
"""

import asyncio
from collections import deque

from seatrial.jobs.ray.wire import PIECE_BYTES, Batch
from seatrial.model.base import StrictModel

LINGER_SEC = 0.2


class Outbox:
    """News of one runner."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, bytes, bytes]] = deque()
        self._last = self._handed_out = 0
        self._due = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    def post(self, news: StrictModel, archive: bytes = b"") -> int:
        """Add something, with what comes along; returns its number."""
        number = self._add(news, archive)
        self._due.set()
        return number

    def mention(self, news: StrictModel) -> None:
        """Add something that goes with the next news, or after a moment."""
        self._add(news)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LINGER_SEC, self._come_due)

    def _add(self, news: StrictModel, archive: bytes = b"") -> int:
        self._last += 1
        self._waiting.append((self._last, news.model_dump_json().encode(), archive))
        return self._last

    def _come_due(self) -> None:
        self._timer = None
        self._due.set()

    async def collect(self, seen: int, longest_sec: float) -> Batch:
        """What is new since the news of that number, as soon as something is due; nothing after so long.

        No more than fits into one message, and what was seen is forgotten.
        """
        while self._waiting and self._waiting[0][0] <= seen:
            self._waiting.popleft()
        if not self._waiting or self._waiting[0][0] > self._handed_out:  # else an answer was lost
            try:
                async with asyncio.timeout(longest_sec):
                    await self._due.wait()
            except TimeoutError:
                return seen, []
        return self._batch()

    def _batch(self) -> Batch:
        last, size = 0, 0
        batch: list[tuple[bytes, bytes]] = []
        for number, news, archive in self._waiting:
            size += len(news) + len(archive)
            if batch and size > PIECE_BYTES:
                break
            last = number
            batch.append((news, archive))
        self._handed_out = last
        if last == self._last:
            self._due.clear()
        return last, batch
