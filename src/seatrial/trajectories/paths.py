"""Conversations as paths in a tree of messages: two that begin alike share the way to where they part.

Each request repeats its conversation, so that a trial of thousands of calls has millions of messages to compare. In a
tree each message is there once, and that one conversation goes on from another is seen a step or two above its end.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from seatrial.gateway.dialects.fields import dump
from seatrial.gateway.marks import take_marks
from seatrial.model.trace import ModelCall

MOST_PROMPTS = 64
"""System prompts by which calls of one agent are known; each call remembers them, and a stranger may send millions."""
_SYSTEM_ROLES = ("system", "developer")


class Node:
    """A message at its place in a conversation. `calls` are the indices of those that end here, in order.

    `print` is the message's fingerprint.

    `opening` is the first message on the way that is not a system prompt; `system` are those before it, the first few.
    """

    __slots__ = ("calls", "depth", "following", "message", "opening", "parent", "print", "system")

    def __init__(self, parent: "Node | None", message: Any, print_: int = 0) -> None:
        self.parent = parent
        self.message = message
        self.print = print_
        self.depth: int = parent.depth + 1 if parent else 0
        self.following: dict[int, Node] = {}
        self.calls: list[int] = []
        self.opening: Node | None = parent.opening if parent else None
        self.system: tuple[Any, ...] = parent.system if parent else ()
        if parent and self.opening is None:
            if not isinstance(message, dict) or message.get("role") not in _SYSTEM_ROLES:
                self.opening = self
            elif len(self.system) < MOST_PROMPTS:
                self.system = (*self.system, message.get("content"))

    def next(self, message: Any) -> "Node":
        """The place of `message` after this one."""
        print_ = fingerprint(message)
        found = self.following.get(print_)
        if found is None:
            found = self.following[print_] = Node(self, message, print_)
        return found

    def up(self) -> Iterator["Node"]:
        """This node and all before it, the last first; the root is not among them."""
        node = self
        while node.parent is not None:
            yield node
            node = node.parent


def grow(calls: Sequence[ModelCall]) -> dict[int, Node]:
    """The end of each call's conversation, by the call's index."""
    root, ends = Node(None, None), dict[int, Node]()
    for call in _after_known(calls):
        node = _start(call, ends, root)
        for message in call.messages:
            node = node.next(message)
        ends[call.index] = node
    return ends


def parting(one: Node, other: Node) -> Node:
    """The last node that two ways have in common."""
    while one is not other:
        if one.depth >= other.depth and one.parent:
            one = one.parent
        elif other.parent:
            other = other.parent
    return one


def below(end: Node, start: Node | None) -> list[Node]:
    """The nodes after `start` on the way to `end`; all of them without a start."""
    found = []
    for node in end.up():
        if node is start:
            break
        found.append(node)
    return found[::-1]


def fingerprint(message: Any) -> int:
    """The same for messages that differ only in where a cache is to begin.

    To mark a message, agents write text that was plain before as a block.
    """
    message = take_marks(message)[0]
    match message:
        case {"content": [{"type": "text", "text": str() as text, **rest}]} if not rest:
            message = {**message, "content": text}
    return hash(dump(message))


def _start(call: ModelCall, ends: dict[int, Node], root: Node) -> Node:
    """Where the messages begin that are new in a call: after those that it has in common with another one."""
    end = ends.get(call.known.call) if call.known else None
    if end is None or call.known is None:
        return root
    while end.depth > call.known.count and end.parent:
        end = end.parent
    return end


def _after_known(calls: Sequence[ModelCall]) -> Iterator[ModelCall]:
    """The calls, each after the one that it builds on: of two at the same time, the later may have ended first."""
    by_index, done = {call.index: call for call in calls}, set[int]()
    for call in calls:
        chain: list[ModelCall] = []
        at: ModelCall | None = call
        while at is not None and at.index not in done:
            done.add(at.index)
            chain.append(at)
            at = by_index.get(at.known.call) if at.known else None
        yield from reversed(chain)
