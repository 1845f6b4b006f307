"""This program as its user started it: how to start it again, as our advice says, and an output that may be closed."""

import gc
import io
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

_NAME = "seatrial"
_MANY_NEW = 50_000


def collect_less() -> None:
    """Have the collector wait until more has come together: what a start imports is not for it."""
    _, middle, old = gc.get_threshold()
    gc.set_threshold(_MANY_NEW, middle, old)


def command_line(*arguments: str) -> str:
    """A command that works as it is printed, from where the user stands."""
    return shlex.join((*_program(sys.argv[0]), *arguments))


def _program(started_as: str) -> tuple[str, ...]:
    path = Path(started_as)
    if path.name == "__main__.py":
        return (Path(sys.executable).name, "-m", _NAME)
    on_path = shutil.which(_NAME)
    if path.name != _NAME or (on_path and Path(on_path).resolve() == path.resolve()):
        return (_NAME,)
    return (started_as,)


# Standard output whose reader may go away, as in `seatrial compare A B --gate | head`: that changes no exit code, and
# stops no run.


class _Output(io.FileIO):
    """A file to write to. Once that has failed, all else goes nowhere, also what is still buffered as Python ends."""

    def write(self, data: Any) -> int:
        """Raises OSError once, and not for a reader that has gone."""
        try:
            return super().write(data)
        except OSError as error:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            if not isinstance(error, BrokenPipeError):
                raise
            return super().write(data)


def ignore_broken_pipe() -> None:
    """Let the reader of standard output go away without an error. An output that is not a file stays as it is."""
    now = sys.stdout
    if not isinstance(now, io.TextIOWrapper):  # closed, or somebody's own
        return
    file = io.BufferedWriter(_Output(now.fileno(), "wb", closefd=False))
    by_line = now.line_buffering or now.write_through
    sys.stdout = io.TextIOWrapper(file, now.encoding, now.errors, line_buffering=by_line)
