"""Which node the next trial runs on: the fit one with the most free seats that has the memory, in order of arrival."""

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

NO_NODES: frozenset[str] = frozenset()


@dataclass(eq=False, slots=True)
class _Node:
    name: str
    free: int
    memory_mb: int
    free_mb: int
    resting: bool = False

    def has_room(self, need_mb: int) -> bool:
        return not self.resting and self.free > 0 and min(need_mb, self.memory_mb) <= self.free_mb


@dataclass(eq=False, slots=True)
class Seat:
    """A place for one trial on a node; to be given back to whoever gave it."""

    node: str
    memory_mb: int
    place: _Node


@dataclass(eq=False, slots=True)
class _Waiter:
    need_mb: int
    avoid: frozenset[str]
    turn: "asyncio.Future[Seat]"


class Seats:
    """The seats of all nodes that can run trials. Nobody overtakes: one that needs much gets its turn.

    A trial that needs more memory than any node has runs alone on the largest.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {}
        self._waiting: deque[_Waiter] = deque()

    def add(self, name: str, slots: int, memory_mb: int) -> None:
        """A node has come."""
        self._nodes[name] = _Node(name, slots, memory_mb, memory_mb)
        self._let_in()

    def remove(self, name: str) -> None:
        """A node has gone."""
        self._nodes.pop(name, None)

    def rest(self, name: str) -> None:
        """Give no seats of a node for now."""
        if node := self._nodes.get(name):
            node.resting = True

    def wake(self, name: str) -> None:
        """Give seats of a node again."""
        if node := self._nodes.get(name):
            node.resting = False
            self._let_in()

    async def take(self, need_mb: int, avoid: frozenset[str] = NO_NODES) -> Seat:
        """A seat on a node, on one to `avoid` only when there is no other node; waits until there is one."""
        waiter = _Waiter(need_mb, avoid, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        self._let_in()
        try:
            return await waiter.turn
        except asyncio.CancelledError:
            if waiter.turn.done() and not waiter.turn.cancelled():
                self.give_back(waiter.turn.result())  # let in and cancelled at the same moment
            else:
                self._waiting.remove(waiter)
                self._let_in()
            raise

    def give_back(self, seat: Seat) -> None:
        """A seat is free again."""
        seat.place.free += 1
        seat.place.free_mb += seat.memory_mb
        self._let_in()

    def fail(self, error: Exception) -> None:
        """Let nobody wait any longer."""
        while self._waiting:
            self._waiting.popleft().turn.set_exception(error)

    def _let_in(self) -> None:
        while self._waiting and (node := self._choose(self._waiting[0])):
            waiter = self._waiting.popleft()
            need = min(waiter.need_mb, node.memory_mb)
            node.free -= 1
            node.free_mb -= need
            waiter.turn.set_result(Seat(node.name, need, node))

    def _choose(self, waiter: _Waiter) -> _Node | None:
        others = [node for node in self._nodes.values() if node.name not in waiter.avoid]
        large = _large_enough(others or self._nodes.values(), waiter.need_mb)
        return max((node for node in large if node.has_room(waiter.need_mb)), key=lambda node: node.free, default=None)


def _large_enough(nodes: Iterable[_Node], need_mb: int) -> list[_Node]:
    """The nodes that hold so much memory; the largest of all when there is none."""
    found = list(nodes)
    most = max((node.memory_mb for node in found), default=0)
    return [node for node in found if node.memory_mb >= min(need_mb, most)]
