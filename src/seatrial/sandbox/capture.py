"""Keeping a command's output: read as it comes, kept up to a limit, dropped beyond it, never blocking the writer.

A pipe rather than a file, so that the limit holds; read until the sandbox ends rather than until the command does, so
that a service left running neither blocks nor dies when it goes on writing.
"""

import asyncio
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

_CHUNK = 65536


class Capture:
    """One output stream of one command. `writer` is the end to give to the command and then to close here."""

    def __init__(self, path: Path | None, limit: int, on_output: Callable[[bytes], None] | None = None) -> None:
        self._sink: BinaryIO | None = path.open("wb") if path else io.BytesIO()
        self._reader, self.writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._reader, False)
        self._room = limit
        self._on_output = on_output
        self.truncated = False
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._reader, self._on_readable)

    def release_writer(self) -> None:
        """Close our copy of the writing end; the command has its own by now."""
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def _on_readable(self) -> None:
        try:
            data = os.read(self._reader, _CHUNK)
        except BlockingIOError:
            return
        if not data:
            self._stop_reading()
        elif self._sink is not None:
            self._keep(self._sink, data)

    def _keep(self, sink: BinaryIO, data: bytes) -> None:
        if len(data) > self._room:
            self.truncated = True
        try:
            sink.write(data[: self._room])
        except OSError:  # a full disk: the command must go on, and its reader learns that something is missing
            self.truncated, self._room = True, 0
        if self._on_output and self._room:
            self._on_output(data[: self._room])
        self._room -= min(len(data), self._room)

    def finish(self) -> bytes:
        """Take what the command wrote before it ended and stop keeping; returns it unless it went to a file."""
        remaining = _CHUNK * 2  # a full pipe and a bit: what comes after that is not the command's
        while remaining > 0 and self._reader >= 0 and self._sink is not None:
            try:
                data = os.read(self._reader, min(_CHUNK, remaining))
            except BlockingIOError:
                break
            if not data:
                self._stop_reading()
                break
            self._keep(self._sink, data)
            remaining -= len(data)
        return self._close_sink()

    def _close_sink(self) -> bytes:
        sink, self._sink = self._sink, None
        if sink is None:
            return b""
        content = sink.getvalue() if isinstance(sink, io.BytesIO) else b""
        try:
            sink.close()
        except OSError:  # a full disk, as above; it is closed all the same
            self.truncated = True
        return content

    def _stop_reading(self) -> None:
        if self._reader >= 0:
            self._loop.remove_reader(self._reader)
            os.close(self._reader)
            self._reader = -1

    @property
    def open(self) -> bool:
        """Whether somebody may still write."""
        return self._reader >= 0

    def close(self) -> None:
        self.release_writer()
        self._stop_reading()
        self._close_sink()
