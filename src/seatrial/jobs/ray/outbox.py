"""News on their way to the coordinator: in order, numbered, and kept until it says that it has them."""

import asyncio
from collections import deque

from seatrial.jobs.ray.wire import PIECE_BYTES, Batch
from seatrial.model.base import StrictModel


class Outbox:
    """News of one runner."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, bytes, bytes]] = deque()
        self._last = 0
        self._something = asyncio.Event()

    def post(self, news: StrictModel, archive: bytes = b"") -> int:
        """Add something, with what comes along; returns its number."""
        self._last += 1
        self._waiting.append((self._last, news.model_dump_json().encode(), archive))
        self._something.set()
        return self._last

    async def collect(self, seen: int, longest_sec: float) -> Batch:
        """What is new since the news of that number, as soon as there is something; nothing after so long.

        No more than fits into one message, and what was seen is forgotten.
        """
        while self._waiting and self._waiting[0][0] <= seen:
            self._waiting.popleft()
        if not self._waiting:
            self._something.clear()
            try:
                async with asyncio.timeout(longest_sec):
                    await self._something.wait()
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
        return last, batch
