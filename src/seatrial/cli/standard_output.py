"""Standard output whose reader may go away, as in `seatrial compare A B --gate | head`.

An exit code is what the command found. That nobody reads to the end changes nothing about it, and stops no run.
"""

import io
import os
import sys
from typing import Any


class _Output(io.FileIO):
    """A file to write to. Once that has failed, all else goes nowhere, also what is still buffered as Python ends."""

    def write(self, data: Any) -> int:
        """Write some bytes; says how many were taken. Raises OSError once, and not for a reader that has gone."""
        try:
            return super().write(data)
        except OSError as error:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            if not isinstance(error, BrokenPipeError):
                raise
            return super().write(data)


def outlive_readers() -> None:
    """Make standard output of this process one whose reader may go away. It stays as it is where it is no file."""
    now = sys.stdout
    if not isinstance(now, io.TextIOWrapper):  # closed, or somebody's own
        return
    file = io.BufferedWriter(_Output(now.fileno(), "wb", closefd=False))
    by_line = now.line_buffering or now.write_through
    sys.stdout = io.TextIOWrapper(file, now.encoding, now.errors, line_buffering=by_line)
