"""Answers that hold for all trials of a task: each is found once, and kept while the run lasts."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from seatrial.trial.verification import Verification

_KEPT_ANSWERS = 4096

T = TypeVar("T")


@dataclass(eq=False, slots=True)
class Answers(Generic[T]):
    """The answers that are known, and a lock for each question that is being asked."""

    known: OrderedDict[Hashable, T] = field(default_factory=OrderedDict)
    asking: dict[Hashable, asyncio.Lock] = field(default_factory=dict)

    async def get(self, question: Hashable, ask: Callable[[], Awaitable[T]]) -> T:
        """The answer; trials that want the same one at the same time wait for the first of them.

        If that one fails, the next one asks for itself.
        """
        if question not in self.known:
            async with self.asking.setdefault(question, asyncio.Lock()):
                try:
                    if question not in self.known:
                        self.keep(question, await ask())
                finally:
                    self.asking.pop(question, None)
        return self.known[question]

    def keep(self, question: Hashable, answer: T) -> None:
        """Remember an answer."""
        self.known[question] = answer
        if len(self.known) > _KEPT_ANSWERS:
            self.known.popitem(last=False)


class RunAnswers(Generic[T]):
    """The answers of each run.

    A run has one event loop; what an earlier run found may no longer hold where the image is this machine's own system.
    """

    def __init__(self) -> None:
        self._runs: WeakKeyDictionary[asyncio.AbstractEventLoop, Answers[T]] = WeakKeyDictionary()

    def of_this_run(self) -> Answers[T]:
        """The answers that the run of this event loop has found."""
        return self._runs.setdefault(asyncio.get_running_loop(), Answers())


def question_about(verification: Verification, tests_digest: str) -> Hashable:
    """All that an answer about the environment of a round depends on."""
    image, spec = verification.place.sandbox.image, verification.spec
    options = spec.options.model_dump_json()
    return spec.task_digest, verification.round.name, tests_digest, image.reference, image.digest, options
