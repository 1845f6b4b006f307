"""Which node the next trial runs on: the fit one with the most free seats that has the memory, in order of arrival."""

import asyncio
from collections import OrderedDict
from collections.abc import Collection
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
    seat: Seat | None = None


class Seats:
    """The seats of all nodes that can run trials. Nobody overtakes: one that needs much gets its turn.

    A trial that needs more memory than any node has runs alone on the largest.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {}
        # In order of arrival. Tens of thousands may wait, and give up at once; the first of a plain dict that has lost
        # many is found only by going past where they were.
        self._waiting: OrderedDict[_Waiter, None] = OrderedDict()

    def add(self, name: str, slots: int, memory_mb: int) -> None:
        """A node has come."""
        self._nodes[name] = _Node(name, slots, memory_mb, memory_mb)
        self._let_in()

    def remove(self, name: str) -> None:
        """A node has gone; one that was to be avoided may be the only one now."""
        self._nodes.pop(name, None)
        self._let_in()

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
        while True:
            seat = await self._take(need_mb, avoid)
            if self._nodes.get(seat.node) is seat.place:  # it may have gone since the seat was given
                return seat

    async def _take(self, need_mb: int, avoid: frozenset[str]) -> Seat:
        waiter = _Waiter(need_mb, avoid, asyncio.get_running_loop().create_future())
        self._waiting[waiter] = None
        if len(self._waiting) == 1:  # the others wait for what the first of them needs
            self._let_in()
        try:
            return await waiter.turn
        except asyncio.CancelledError:
            if waiter.seat:
                self.give_back(waiter.seat)  # let in and cancelled at the same moment
            elif self._first() is waiter:
                self._let_in()
            else:
                self._waiting.pop(waiter, None)
            raise

    def give_back(self, seat: Seat) -> None:
        """A seat is free again."""
        seat.place.free += 1
        seat.place.free_mb += seat.memory_mb
        self._let_in()

    def fail(self, error: Exception) -> None:
        """Let nobody wait any longer."""
        waiting, self._waiting = self._waiting, OrderedDict()
        for waiter in waiting:
            if not waiter.turn.done():
                waiter.turn.set_exception(error)

    def _first(self) -> _Waiter | None:
        return next(iter(self._waiting), None)

    def _let_in(self) -> None:
        while waiter := self._first():
            if not waiter.turn.done():  # cancelled, but it has not had its turn to go
                if (node := self._choose(waiter)) is None:
                    return
                need = min(waiter.need_mb, node.memory_mb)
                node.free -= 1
                node.free_mb -= need
                waiter.seat = Seat(node.name, need, node)
                waiter.turn.set_result(waiter.seat)
            del self._waiting[waiter]

    def _choose(self, waiter: _Waiter) -> _Node | None:
        nodes: Collection[_Node] = self._nodes.values()
        if waiter.avoid:
            nodes = [node for node in nodes if node.name not in waiter.avoid] or nodes
        least = min(waiter.need_mb, max((node.memory_mb for node in nodes), default=0)) if waiter.need_mb else 0
        best = None
        for node in nodes:  # of each trial that ends, over all nodes
            if node.free > (best.free if best else 0) and node.memory_mb >= least and node.has_room(waiter.need_mb):
                best = node
        return best
