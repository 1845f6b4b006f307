"""MathWorkers: processes that compare mathematical answers, started as they are needed."""

import queue
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any

import orjson

from seatrial.errors import InfraError

_COMMAND = (sys.executable, "-m", "seatrial.env.math_worker")


class MathWorkers:
    """At most `count` processes. One that does not answer within `limit_sec` is ended, and another takes its place."""

    def __init__(self, count: int, limit_sec: float, command: Sequence[str] = _COMMAND) -> None:
        self._command = command
        self._limit_sec = limit_sec
        self._free: queue.LifoQueue[subprocess.Popen[bytes] | None] = queue.LifoQueue()
        self._count = count
        for _ in range(count):
            self._free.put(None)

    def ask(self, question: dict[str, Any]) -> bool:
        """Whether an answer is right; waits for it. Raises InfraError when no process says so."""
        worker = self._free.get()
        try:
            if worker is None or worker.poll() is not None:
                worker = subprocess.Popen(  # noqa: S603 - our own program
                    self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
                )
            return self._ask(worker, question)
        finally:
            self._free.put(worker)

    def _ask(self, worker: "subprocess.Popen[bytes]", question: dict[str, Any]) -> bool:
        alarm = threading.Timer(self._limit_sec, worker.kill)
        alarm.start()
        try:
            said = _exchange(worker, orjson.dumps(question) + b"\n")
        except OSError:
            said = b""
        finally:
            alarm.cancel()
        if said not in {b"0", b"1"}:
            _end(worker)
            raise InfraError(
                f"the process that compares answers ended without saying anything of {str(question)[:300]} "
                f"(it has {self._limit_sec:.0f} s)"
            )
        return said == b"1"

    def close(self) -> None:
        """End all processes, each when it has answered; another question starts one again."""
        for _ in range(self._count):
            worker = self._free.get()
            if worker is not None:
                _end(worker)
            self._free.put(None)


def _exchange(worker: "subprocess.Popen[bytes]", line: bytes) -> bytes:
    if worker.stdin is None or worker.stdout is None:
        raise RuntimeError("a worker was started without pipes")
    worker.stdin.write(line)
    worker.stdin.flush()
    return worker.stdout.readline().strip()


def _end(worker: "subprocess.Popen[bytes]") -> None:
    worker.kill()
    worker.wait()
    for pipe in (worker.stdin, worker.stdout):
        if pipe is not None:
            _close(pipe)


def _close(pipe: Any) -> None:
    try:
        pipe.close()
    except OSError:  # what was still to be written has no reader any more
        return
