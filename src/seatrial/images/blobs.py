"""Downloading a blob: checked while it comes, resumed after a cut, also by another process on another day."""

import asyncio
import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import aiohttp

from seatrial.errors import ImageError, ImageFetchError
from seatrial.images.access import Access
from seatrial.images.registry import Descriptor
from seatrial.images.retrying import PassingError, pause

_CHUNK = 2**18
_RANGE = re.compile(r"bytes (\d+)-\d+/(?:\d+|\*)")


async def fetch_blob(
    access: Access, blob: Descriptor, path: Path, on_bytes: Callable[[int], None] = lambda _: None
) -> None:
    """Download a blob to a file, going on from what is there of it; `on_bytes` hears how much there is.

    Raises ImageError when its content is not what its digest says, and then keeps nothing; ImageFetchError when it
    cannot be had now, and then keeps what came.
    """
    with path.open("a+b") as file:
        download = _Download(access, blob, file, on_bytes)
        resumed = await asyncio.to_thread(download.look_at_file)
        await download.fetch()
        if not download.is_right() and resumed:
            download.start_over()  # what was there may have been anything
            await download.fetch()
        if download.is_right():
            return
        found = download.found
        download.start_over()
    raise ImageError(
        f"{access} sent something else for {blob.digest}: {found}; nothing of it was kept. "
        "If it happens again, the registry or something on the way to it changes its content"
    )


def _new_hash(blob: Descriptor) -> "hashlib._Hash":
    return hashlib.new(blob.digest.partition(":")[0])


class _Download:
    """One blob on its way into a file."""

    def __init__(self, access: Access, blob: Descriptor, file: BinaryIO, on_bytes: Callable[[int], None]) -> None:
        self._access = access
        self._blob = blob
        self._file = file
        self._on_bytes = on_bytes
        self._hash = _new_hash(blob)
        self._size = 0

    def start_over(self) -> None:
        """Forget what is there."""
        self._file.truncate(0)
        self._hash = _new_hash(self._blob)
        self._size = 0

    def look_at_file(self) -> bool:
        """Take in what an earlier try left; whether there was something."""
        self._file.seek(0)
        while chunk := self._file.read(_CHUNK):
            self._hash.update(chunk)
            self._size += len(chunk)
        if self._size > self._blob.size:
            self.start_over()
        return self._size > 0

    @property
    def found(self) -> str:
        """The digest of what has come."""
        return f"{self._hash.name}:{self._hash.hexdigest()}"

    def is_right(self) -> bool:
        """Whether it is all there and what it should be."""
        return self._size == self._blob.size and self.found == self._blob.digest

    async def fetch(self) -> None:
        """Get what is missing. Each try that brings something starts counting anew."""
        failures = 0
        while self._size < self._blob.size:
            before = self._size
            try:
                await self._fetch_some()
            except PassingError as error:
                failures = 1 if self._size > before else failures + 1
                if failures >= error.tries:
                    raise ImageFetchError(
                        f"{error}; tried {failures} times; {self._size} of {self._blob.size} bytes are kept"
                    ) from error
                await self._access.wait(pause(failures, error))
        self._file.flush()

    async def _fetch_some(self) -> None:
        headers = {"Range": f"bytes={self._size}-"} if self._size else {}
        async with self._access.stream(f"blobs/{self._blob.digest}", headers) as response:
            self._meet(response)
            async for chunk in response.content.iter_chunked(_CHUNK):
                self._take(chunk)
        if self._size < self._blob.size:
            raise PassingError(f"{self._access} ended after {self._size} of {self._blob.size} bytes")

    def _meet(self, response: aiohttp.ClientResponse) -> None:
        """See where an answer begins: not every registry knows ranges."""
        begins = _RANGE.fullmatch(response.headers.get("Content-Range", "")) if response.status == 206 else None
        start = int(begins[1]) if begins else 0
        if start != self._size:
            self.start_over()
        if start != self._size or response.status == 416:
            raise PassingError(f"{self._access} answered with another range than was asked for")

    def _take(self, chunk: bytes) -> None:
        if self._size + len(chunk) > self._blob.size:
            self.start_over()
            raise ImageError(f"{self._access} sends more than the {self._blob.size} bytes of {self._blob.digest}")
        self._file.write(chunk)
        self._hash.update(chunk)
        self._size += len(chunk)
        self._on_bytes(self._size)
