"""A pipe that is read to its end while somebody looks for secrets in it, or until nobody wants to know any more."""

import io
import os
import threading
from collections.abc import Collection
from types import TracebackType
from typing import Self

from seatrial.errors import ContentError

_LEAST_SECRET = 8


class SearchedStream(io.RawIOBase):
    """Raises ContentError when one of some secrets has come by, and OSError once it is told to `stop`."""

    def __init__(self, descriptor: int, secrets: Collection[str]) -> None:
        super().__init__()
        self.stop = threading.Event()
        self._descriptor = descriptor
        self._secrets = [secret.encode() for secret in secrets if len(secret) >= _LEAST_SECRET]
        self._overlap = max(map(len, self._secrets), default=1) - 1
        self._seen = self._ahead = b""
        self._open = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the pipe: whoever still writes to it is told so."""
        if self._open:
            self._open = False
            os.close(self._descriptor)

    def put_back(self, data: bytes) -> None:
        """Have some bytes come again."""
        self._ahead = data + self._ahead

    def read(self, size: int = -1, /) -> bytes:
        """As many bytes as are asked for; less only at the end."""
        parts, left = [self._ahead[:size]], size - len(self._ahead[:size])
        self._ahead = self._ahead[size:]
        while left > 0 and (data := os.read(self._descriptor, left)):
            self._search(data)
            parts.append(data)
            left -= len(data)
        return b"".join(parts)

    def _search(self, data: bytes) -> None:
        if self.stop.is_set():
            raise OSError("nobody wants it any more")
        if not self._secrets:
            return
        together = self._seen + data
        if any(secret in together for secret in self._secrets):
            raise ContentError("it holds the value of a variable that the task was given by --allow-env")
        self._seen = together[-self._overlap :] if self._overlap else b""
