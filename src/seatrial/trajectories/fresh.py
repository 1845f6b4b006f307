"""What is new in a call: the messages that its thread has not had yet, and no echo of the model's answers."""

from collections.abc import Mapping, Sequence
from typing import Any

from seatrial.trajectories.items import Item
from seatrial.trajectories.links import How, echoes, leading_answer
from seatrial.trajectories.paths import Node, below, fingerprint, parting
from seatrial.trajectories.reading import read_messages

_ANSWERS = 64  # that a rewritten conversation is compared with


class Fresh:
    """Knows where the conversations of all calls end."""

    def __init__(self, ends: Mapping[int, Node]) -> None:
        self._ends = ends

    def thread(self) -> "FreshMessages":
        """A new thread, in which nothing was said yet."""
        return FreshMessages(self._ends)


class FreshMessages:
    """Follows one thread from call to call."""

    def __init__(self, ends: Mapping[int, Node]) -> None:
        self._ends = ends
        self._said: list[Any] = []
        self._answers: list[Sequence[Item]] = []

    def new(self, index: int, before: int | None, previous: Sequence[Item], how: How) -> tuple[Any, ...]:
        """The new messages of a call that goes on from the call `before`, whose answer was `previous`."""
        end = self._ends[index]
        start = self._ends[before] if before is not None else None
        if how == "continues":
            messages = below(end, start)
            count = leading_answer(messages)
            fresh = messages[count:] if echoes(read_messages(messages[:count]), previous) else messages
        elif how == "rewritten" and start is not None:
            fresh = self._unsaid(below(end, parting(end, start)))
        else:
            fresh = self._unsaid(below(end, None))
        self._said += fresh
        return tuple(fresh)

    def answered(self, answer: Sequence[Item]) -> None:
        """The model has answered."""
        if answer:
            self._answers.append(answer)

    def _unsaid(self, messages: Sequence[Any]) -> list[Any]:
        """Those of a conversation that was written anew which are new: the others are old ones, moved."""
        said = {fingerprint(message) for message in self._said}
        unsaid: list[Any] = []
        at = 0
        while at < len(messages):
            count = leading_answer(messages[at:])
            run = messages[at : at + max(count, 1)]
            at += len(run)
            repeated = count and any(echoes(read_messages(run), answer) for answer in self._answers[-_ANSWERS:])
            if not repeated:
                unsaid += [message for message in run if fingerprint(message) not in said]
        return unsaid
