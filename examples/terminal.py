"""What a terminal shows of a program at each moment: enough of one for lines, colours and a display drawn over."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Iterator, Sequence

_PIECE = re.compile(r"\x1b\[(\?25[lh]|[0-9;]*[A-Za-z])|\r|\n|[^\x1b\r\n]+")


class Screen:
    """Lines as a terminal shows them, each with its colours as the program wrote them."""

    def __init__(self) -> None:
        self.lines = [""]
        self._row = 0
        self._at_start = True

    def write(self, output: str) -> None:
        """Take what the program has written."""
        for piece in _PIECE.finditer(output):
            self._take(piece[0], piece[1])

    def _take(self, piece: str, control: str | None) -> None:
        if control and control.endswith("A"):
            self._row = max(0, self._row - int(control[:-1] or 1))
        elif control and control.endswith("K"):
            self.lines[self._row] = ""
        elif piece == "\r":
            self._at_start = True
        elif piece == "\n":
            self._row += 1
            self.lines += [""] * (self._row + 1 - len(self.lines))
        elif control is None or control.endswith("m"):
            self.lines[self._row] = ("" if self._at_start else self.lines[self._row]) + piece
            self._at_start = False


def record(command: Sequence[str], columns: int, rows: int) -> Iterator[str]:
    """What a program writes to a terminal of that size, piece by piece. Raises CalledProcessError if it fails."""
    screen, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color"}
    with subprocess.Popen(  # noqa: S603 - to run what the caller names is its purpose
        command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment
    ) as program:
        os.close(terminal)
        try:
            while piece := os.read(screen, 65536):
                yield piece.decode(errors="replace")
        except OSError:  # how Linux says that nobody holds the terminal any more
            pass
        finally:
            os.close(screen)
    if program.returncode != 0:
        raise subprocess.CalledProcessError(program.returncode, command)
