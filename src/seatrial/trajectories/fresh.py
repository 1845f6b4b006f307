"""What is new in a call: the messages that its thread has not had yet, and no echo of the model's answers."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from seatrial.trajectories.items import Item
from seatrial.trajectories.links import How, answer_key, echoes, leading_answer
from seatrial.trajectories.paths import Node, below, parting
from seatrial.trajectories.reading import read_messages


class FreshMessages:
    """Follows one thread from call to call, knowing where the conversation of each call ends."""

    def __init__(self, ends: Mapping[int, Node]) -> None:
        self._ends = ends
        self._said: set[int] = set()
        self._answers: set[Hashable] = set()

    def new(self, index: int, before: int | None, previous: Sequence[Item], how: How) -> tuple[Any, ...]:
        """The new messages of a call that goes on from the call `before`, whose answer was `previous`."""
        end = self._ends[index]
        start = self._ends[before] if before is not None else None
        if how == "continues":
            fresh = below(end, start)
            count = leading_answer(node.message for node in fresh)
            if echoes(read_messages(node.message for node in fresh[:count]), previous):
                fresh = fresh[count:]
        else:
            fresh = self._unsaid(below(end, parting(end, start) if how == "rewritten" and start else None))
        self._said.update(node.print for node in fresh)
        return tuple(node.message for node in fresh)

    def answered(self, answer: Sequence[Item]) -> None:
        """The model has answered."""
        if answer:
            self._answers.add(answer_key(answer))

    def _unsaid(self, nodes: Sequence[Node]) -> list[Node]:
        """Those of a conversation that was written anew which are new: the others are old ones, moved."""
        unsaid: list[Node] = []
        at = 0
        while at < len(nodes):
            count = leading_answer(node.message for node in nodes[at:])
            run = nodes[at : at + max(count, 1)]
            at += len(run)
            if not count or answer_key(read_messages(node.message for node in run)) not in self._answers:
                unsaid += [node for node in run if node.print not in self._said]
        return unsaid
