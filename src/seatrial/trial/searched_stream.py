"""A pipe that is read to its end while somebody looks for secrets in it, or until nobody wants to know any more."""

import os
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from seatrial.errors import ContentError

SECRET_FOUND = "it holds the value of a variable that was given by --allow-env or --agent-env"  # noqa: S105 - a sentence
_LEAST_SECRET = 8


def holds_secret(data: bytes, secrets: Collection[str]) -> bool:
    """Whether some bytes hold a secret. Those that are so short that anything holds them do not count."""
    return any(_bytes_of(secret) in data for secret in secrets if len(secret) >= _LEAST_SECRET)


def _bytes_of(secret: str) -> bytes:
    """What a program writes that was given a variable, whose value need not be UTF-8."""
    return secret.encode("utf-8", "surrogateescape")


class SearchedStream:
    """Raises ContentError when one of some secrets has come by, and OSError once it is told to `stop`."""

    def __init__(self, descriptor: int, secrets: Collection[str]) -> None:
        self.stop = threading.Event()
        self._descriptor = descriptor
        self._secrets = secrets
        self._overlap = max((len(_bytes_of(secret)) for secret in secrets), default=0)
        self._seen = b""
        self.ended = False
        """Whether all of it was read."""

    @contextmanager
    def unless_stopped(self) -> Iterator[None]:
        """A block that reads it, after which the pipe is let go of: whoever still writes to it is told so."""
        try:
            self._go_on()
            yield
        finally:
            os.close(self._descriptor)

    def read(self, size: int = -1, /) -> bytes:
        """As many bytes as are asked for; less only at the end."""
        parts, left = [], size
        while left > 0 and (data := os.read(self._descriptor, left)):
            self._search(data)
            parts.append(data)
            left -= len(data)
        self.ended = left > 0
        return b"".join(parts)

    def _search(self, data: bytes) -> None:
        self._go_on()
        if self._overlap:
            together = self._seen + data
            if holds_secret(together, self._secrets):
                raise ContentError(SECRET_FOUND)
            self._seen = together[-self._overlap :]

    def _go_on(self) -> None:
        if self.stop.is_set():
            raise OSError("nobody wants it any more")
