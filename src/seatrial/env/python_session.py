"""A Python that stays: runs in a sandbox by itself, with nothing but the standard library of whichever Python is there.

    python3 python_session.py serve SOCKET            keeps variables, and runs what it is asked to
    python3 python_session.py ask SOCKET FILE WAIT    has it run the code in a file, and prints the answer as JSON

Code has as many seconds as the request says; one that does not stop then is left to whoever started this.
"""

from __future__ import annotations  # the sandbox's Python may be an old one

import ast
import contextlib
import io
import json
import signal
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn

MAX_CHARS = 100_000


class Capped(io.TextIOBase):
    """Keeps the beginning of what is written to it, and counts the rest."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.room = MAX_CHARS
        self.lost = 0

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        kept = text[: self.room]
        if kept:
            self.parts.append(kept)
        self.room -= len(kept)
        self.lost += len(text) - len(kept)
        return len(text)

    def text(self) -> str:
        more = f"\n[… {self.lost} characters left out …]" if self.lost else ""
        return "".join(self.parts) + more


class OutOfTime(BaseException):
    """Not an Exception, which code often catches."""


def out_of_time(*_: Any) -> NoReturn:
    raise OutOfTime


def evaluate(code: str, variables: dict[str, Any]) -> str | None:
    """Run code; the value of its last line, if that is an expression with a value."""
    tree = ast.parse(code, "<cell>")
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr):
        exec(compile(tree, "<cell>", "exec"), variables)  # noqa: S102 - what it is for
        return None
    del tree.body[-1]
    exec(compile(tree, "<cell>", "exec"), variables)  # noqa: S102 - as above
    value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), variables)  # noqa: S307 - as above
    return None if value is None else repr(value)[:MAX_CHARS]


def trace(error: BaseException) -> str:
    """How the code failed, without our own lines."""
    lines = error.__traceback__
    while lines is not None and lines.tb_frame.f_code.co_filename == __file__:
        lines = lines.tb_next
    return "".join(traceback.format_exception(type(error), error, lines))


def run(code: str, seconds: float, variables: dict[str, Any]) -> dict[str, Any]:
    """What a piece of code wrote, and its value or how it failed."""
    out, err = Capped(), Capped()
    answer: dict[str, Any] = {"status": "ok", "result": None}
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            answer["result"] = evaluate(code, variables)
    except OutOfTime:
        answer = {"status": "error", "result": f"Error: Code timed out after {seconds:g}s"}
    except BaseException as error:  # noqa: BLE001 - the code's, told to its author
        answer = {"status": "error", "result": trace(error)[-MAX_CHARS:]}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return dict(answer, stdout=out.text(), stderr=err.text())


def serve(path: str) -> None:
    """Answer requests, one after the other, until the end."""
    signal.signal(signal.SIGALRM, out_of_time)
    with contextlib.suppress(FileNotFoundError):
        Path(path).unlink()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(1)
    variables: dict[str, Any] = {"__name__": "__main__"}
    number = 0
    while True:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError), connection.makefile("rwb") as stream:
            request = json.loads(stream.readline())
            number += 1
            with contextlib.suppress(OutOfTime):  # which may come when the code has just ended
                answer = {"status": "error", "result": "Error: Code timed out"}
                answer = run(request["code"], request["seconds"], variables)
            stream.write(json.dumps(dict(answer, execution_count=number)).encode("utf-8", "replace") + b"\n")


def ask(path: str, file: str, wait: float) -> None:
    """Have a request answered; by a server that dies, with nothing. Exits with 3 when none is there in time."""
    until = time.monotonic() + wait
    client = socket.socket(socket.AF_UNIX)
    while True:
        try:
            client.connect(path)
            break
        except OSError:
            if time.monotonic() > until:
                sys.exit(3)
            time.sleep(0.01)
    with contextlib.suppress(OSError):
        client.sendall(Path(file).read_bytes() + b"\n")
        with client.makefile("rb") as stream:
            sys.stdout.write(stream.readline().decode("utf-8", "replace"))


if __name__ == "__main__":
    serve(sys.argv[2]) if sys.argv[1] == "serve" else ask(sys.argv[2], sys.argv[3], float(sys.argv[4]))
