"""MathRubric: whether the answer in a box is mathematically the one that the row has, by the package math-verify.

Answers are compared in processes (`math_worker`), because a comparison may go on for ever.
"""

import asyncio
import queue
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from typing import Any

import orjson

from seatrial.env.hooks import teardown
from seatrial.env.parsers import MaybeThinkParser, Parser, extract_boxed_answer
from seatrial.env.rubric import RewardFunc, Rubric
from seatrial.errors import InfraError, UsageError

_HARD_LIMIT_SEC = 120.0
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
    assert worker.stdin is not None  # noqa: S101 - it was started with pipes
    assert worker.stdout is not None  # noqa: S101 - likewise
    worker.stdin.write(line)
    worker.stdin.flush()
    return worker.stdout.readline().strip()


def _end(worker: "subprocess.Popen[bytes]") -> None:
    worker.kill()
    worker.wait()
    for pipe in (worker.stdin, worker.stdout):
        with suppress(OSError):  # what was still to be written has no reader any more
            if pipe is not None:
                pipe.close()


class MathRubric(Rubric):
    r"""The functions given, and `correct_answer`: 1.0 for the right answer in `\boxed{}`, after any thinking.

    Answers are compared in processes of their own, at most `max_workers`; one that cannot be read and compared within
    `timeout_seconds` is not the right one, nor is one longer than `max_verify_chars`. Raises UsageError without the
    package math-verify.
    """

    def __init__(
        self,
        funcs: Sequence[RewardFunc] | None = None,
        weights: Sequence[float] | None = None,
        parser: Parser | None = None,
        max_workers: int = 8,
        timeout_seconds: float = 5,
        max_verify_chars: int = 50_000,
    ) -> None:
        if find_spec("math_verify") is None:
            raise UsageError("MathRubric compares answers by the package math-verify: pip install math-verify")
        boxed = partial(extract_boxed_answer, strict=True)
        super().__init__(funcs=funcs, weights=weights, parser=parser or MaybeThinkParser(boxed))
        self.timeout_seconds = timeout_seconds
        self.max_verify_chars = max_verify_chars
        self._max_workers = max_workers
        self._workers: MathWorkers | None = None
        self.add_reward_func(self.correct_answer)

    async def correct_answer(self, parser: Parser, completion: Any, answer: Any, **_: Any) -> float:
        """1.0 when the answer that the parser finds is the right one. Raises InfraError when nothing can say."""
        response = parser.parse_answer(completion) or ""
        if not response or len(response) > self.max_verify_chars:
            return 0.0
        if self._workers is None:
            self._workers = MathWorkers(self._max_workers, _HARD_LIMIT_SEC)
        question = {"answer": str(answer), "response": response, "seconds": max(1, int(self.timeout_seconds))}
        return float(await asyncio.to_thread(self._workers.ask, question))

    @teardown
    async def end_workers(self) -> None:
        if self._workers is not None:
            await asyncio.to_thread(self._workers.close)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_workers": None}
