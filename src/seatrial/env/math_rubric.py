"""MathRubric: whether the answer in a box is mathematically the one that the row has, by the package math-verify."""

import asyncio
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any

from seatrial.env.decorators import teardown
from seatrial.env.math_workers import MathWorkers
from seatrial.env.parsers.answers import extract_boxed_answer
from seatrial.env.parsers.parser import Parser
from seatrial.env.parsers.think_parser import MaybeThinkParser
from seatrial.env.rubric import RewardFunc, Rubric
from seatrial.errors import UsageError

_HARD_LIMIT_SEC = 120.0


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
        """End the processes that compare answers."""
        if self._workers is not None:
            await asyncio.to_thread(self._workers.close)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_workers": None}
