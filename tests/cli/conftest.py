"""Two ways to run a command: in this process, which is fast, and as the process a user starts."""

import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from seatrial.cli import main

SEATRIAL = (sys.executable, "-m", "seatrial")
# Nothing of this terminal, and the same code that this process imports.
PLAIN_ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "PYTHONPATH": str(Path(main.__file__).parents[2]),
    "LC_ALL": "C.UTF-8",
    "XDG_STATE_HOME": os.environ["XDG_STATE_HOME"],
}


@dataclass(frozen=True)
class Shown:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str


Seatrial = Callable[..., Shown]


@pytest.fixture
def seatrial(capsys: pytest.CaptureFixture[str]) -> Seatrial:
    """Run a command line in this process, its output going to a pipe."""

    def call(*arguments: object) -> Shown:
        code = main.run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Shown(code, captured.out, captured.err)

    return call


def cells(line: str) -> list[str]:
    """The cells of a line of a table."""
    return re.split(r" {2,}", line.strip())


def start(*arguments: object, **environment: str) -> Shown:
    """Run a command line as a process of its own."""
    done = subprocess.run(
        [*SEATRIAL, *map(str, arguments)], env={**PLAIN_ENVIRONMENT, **environment}, capture_output=True, check=False
    )
    return Shown(done.returncode, done.stdout.decode(), done.stderr.decode())


def on_terminal(command: tuple[str, ...], columns: int = 200) -> str:
    """What a command shows on a terminal of so many columns."""
    screen, terminal = pty.openpty()
    environment = {**PLAIN_ENVIRONMENT, "TERM": "xterm", "COLUMNS": str(columns)}
    with subprocess.Popen(command, env=environment, stdin=terminal, stdout=terminal, stderr=terminal):
        os.close(terminal)
        shown = b""
        try:
            while chunk := os.read(screen, 65536):
                shown += chunk
        except OSError:  # how Linux says that nobody holds the terminal any more
            pass
        finally:
            os.close(screen)
    return shown.decode()
