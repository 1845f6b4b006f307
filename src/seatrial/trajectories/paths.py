"""Which call of a trial goes on from which, told by what their conversations have in common.

Conversations are paths in a tree of messages: two that begin alike share the way to where they part. Each request
repeats its conversation, so a trial of thousands of calls has millions of messages to compare; in a tree each is there
once. `grow` makes the tree, Linker links calls, FreshMessages finds what is new in each; `threads` is made of these.
"""

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from typing import Any, Literal, NamedTuple

from seatrial.gateway.calls import take_marks
from seatrial.messages import (
    MODEL_ROLES,
    SYSTEM_ROLES,
    AnyItem,
    Message,
    Parts,
    Reasoning,
    ToolCall,
    as_text,
    is_model_side,
    plain_words,
)
from seatrial.model.trace import ModelCall
from seatrial.trajectories.reading import is_answered, read_answer, read_message, read_messages, read_system
from seatrial.untrusted.json import dump, text

MOST_PROMPTS = 64
"""System prompts by which calls of one agent are known; each call remembers them, and a stranger may send millions."""


class Node:
    """A message at its place in a conversation."""

    __slots__ = ("calls", "depth", "following", "message", "opening", "parent", "print", "system")

    def __init__(self, parent: "Node | None", message: Any, print_: int = 0) -> None:
        self.parent = parent
        self.message = message
        self.print = print_
        """The message's fingerprint."""
        self.depth: int = parent.depth + 1 if parent else 0
        self.following: dict[int, Node] = {}
        self.calls: list[int] = []
        """The indices of those that end here, in order."""
        self.opening: Node | None = parent.opening if parent else None
        """The first message on the way that is not a system prompt."""
        self.system: tuple[Any, ...] = parent.system if parent else ()
        """The system prompts before it, the first few."""
        if parent and self.opening is None:
            if not isinstance(message, dict) or message.get("role") not in SYSTEM_ROLES:
                self.opening = self
            elif len(self.system) < MOST_PROMPTS:
                self.system = (*self.system, message.get("content"))

    def next(self, message: Any) -> "Node":
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


# Links: which call goes on from which, and which tool call started which. No agent says so. It is told by what their
# conversations have in common, in this order: a conversation goes on from one that it begins with and whose answer it
# repeats; a sub-agent begins with words that are an argument of a tool call; after a compaction, an agent begins again
# with words that are the answer to the call before; and one that rewrites the end of its conversation still has its
# beginning.

_LEAST_PROMPT = 8  # of characters: shorter arguments of tools are in many a text
_LEAST_LINE = 40
_MOST_REMEMBERED = 400
_MOST_PLACES = 32  # on the way back through a conversation: what an agent goes on from is one of the last
_MOST_PARTS = 256  # messages of one answer

How = Literal["continues", "compacted", "rewritten"]


class Starter(NamedTuple):
    """The tool call that started a thread: of which call, and its id."""

    call: int
    tool_call_id: str


@dataclass(frozen=True, slots=True)
class Link:
    """Where a call comes from: the call that it goes on from, and how; or the tool call that started its thread."""

    earlier: int | None = None
    how: How = "continues"
    starter: Starter | None = None
    repeats: int | None = None
    """The first call that asked the same."""


class _Use(NamedTuple):
    starter: Starter
    text: str


class Linker:
    """Links calls, which are given in the order of their indices."""

    def __init__(self, ends: Mapping[int, Node], requests: Mapping[int, Mapping[str, Any]]) -> None:
        self._ends = ends
        self._requests = requests
        self._by_id: dict[str, int] = {}
        self._by_answer: dict[Hashable, list[int]] = defaultdict(list)
        self._by_opening: dict[Node, list[int]] = defaultdict(list)
        self._lines: list[tuple[int, str]] = []
        self._answers: dict[int, list[AnyItem]] = {}
        self._families: dict[int, tuple[bool, frozenset[str]]] = {}
        self._links: dict[int, Link] = {}
        self._uses: list[_Use] = []
        self._last_said: dict[Node, Node | None] = {}

    def add(self, call: ModelCall) -> Link:
        """Where `call` comes from, by those that were added before."""
        self._families[call.index] = _family(self._requests[call.index], self._ends[call.index])
        link = self._link(call)
        self._links[call.index] = link
        end = self._ends[call.index]
        end.calls.append(call.index)
        if end.opening:
            self._by_opening[end.opening].append(call.index)
        if is_answered(call):
            answer = self._answers[call.index] = read_answer(call.response)
            self._by_answer[answer_key(answer)].append(call.index)
            if id_ := text((call.response or {}).get("id")):
                self._by_id[id_] = call.index
            self._uses.extend(_uses(call.index, answer))
            del self._uses[:-_MOST_REMEMBERED]
            line = _longest_line(answer)
            if len(line) >= _LEAST_LINE and link.earlier is not None:
                self._lines.append((call.index, line))
                del self._lines[:-_MOST_REMEMBERED]
        return link

    def answer(self, index: int) -> list[AnyItem]:
        return self._answers.get(index, [])

    def _link(self, call: ModelCall) -> Link:
        end = self._ends[call.index]
        repeated = next((index for index in end.calls if self._is_alike(index, call.index)), None)
        if repeated is not None:
            return replace(self._links[repeated], repeats=repeated)
        earlier = self._by_id.get(text(self._requests[call.index].get("previous_response_id")) or "")
        if earlier is None:
            earlier = self._continued(call.index, end)
        if (later := self._last_answer(call.index, end, earlier)) is not None:
            return Link(later, "rewritten")
        if earlier is not None:
            return Link(earlier)
        opened = _opened(end)
        if starter := self._starter(opened):
            return Link(starter=starter)
        if (earlier := self._compacted(call.index, opened)) is not None:
            return Link(earlier, "compacted")
        earlier = self._rewritten(call.index, end)
        return Link() if earlier is None else Link(earlier, "rewritten")

    def _continued(self, index: int, end: Node) -> int | None:
        """The call whose conversation is the longest that this one begins with, and whose answer it repeats.

        Without the answer it has to be alike: it may have had none, or the agent may have thrown it away.
        """
        way: deque[Any] = deque(maxlen=_MOST_PARTS)
        places = 0
        for node in end.up():
            way.appendleft(node.message)
            before = node.parent
            if before is None or not before.calls:
                continue
            if (places := places + 1) > _MOST_PLACES:
                break
            said = _leading_answer(way)
            for earlier in islice(reversed(before.calls), _MOST_REMEMBERED):
                if echoes(said, self.answer(earlier)):
                    return earlier
            alike = next((earlier for earlier in reversed(before.calls) if self._is_alike(earlier, index)), None)
            if alike is not None:
                return alike
        return None

    def _last_answer(self, index: int, end: Node, earlier: int | None) -> int | None:
        """The call whose answer is the last in a conversation, if it is later than the one that it begins with.

        Agents rewrite what is long ago, to save tokens: then the conversation begins with an early one only.
        """
        if end.opening is None:
            return None
        last = self._find_last_said(end)
        for found in reversed(self._by_answer.get(answer_key(_last_run(last) if last else ()), ())):
            if earlier is not None and found <= earlier:
                break
            if self._ends[found].opening is end.opening and self._is_alike(found, index):
                return found
        return None

    def _find_last_said(self, end: Node) -> Node | None:
        """The last message of a conversation that the model said. Each place on the way is looked at once."""
        passed: list[Node] = []
        found: Node | None = None
        for node in end.up():
            if node in self._last_said:
                found = self._last_said[node]
                break
            passed.append(node)
            if _is_models(node.message):
                found = node
                break
        self._last_said.update(dict.fromkeys(passed, found))
        return found

    def _starter(self, opened: Sequence[str]) -> Starter | None:
        for use in reversed(self._uses):
            if any(2 * len(use.text) >= len(words) and use.text in words for words in opened):
                return use.starter
        return None

    def _compacted(self, index: int, opened: Sequence[str]) -> int | None:
        for earlier, line in reversed(self._lines):
            if any(line in words for words in opened) and self._descends_from_alike(earlier, index):
                return earlier
        return None

    def _descends_from_alike(self, earlier: int, index: int) -> bool:
        """Whether a call is like this one, or goes on from one that is: what asks for a summary may look different."""
        at: int | None = earlier
        while at is not None:
            if self._is_alike(at, index):
                return True
            at = self._links[at].earlier
        return False

    def _rewritten(self, index: int, end: Node) -> int | None:
        same = reversed(self._by_opening.get(end.opening, ())) if end.opening else ()
        return next((earlier for earlier in same if self._is_alike(earlier, index)), None)

    def _is_alike(self, one: int, other: int) -> bool:
        """Whether two calls are of one agent: both have tools or both have none, and system prompts in common."""
        (tools, system), (other_tools, other_system) = self._families[one], self._families[other]
        return tools == other_tools and (system == other_system or not system.isdisjoint(other_system))


def echoes(said: Sequence[AnyItem], answer: Sequence[AnyItem]) -> bool:
    """Whether the model's part of a conversation repeats an answer, as agents write it: thoughts may be missing."""
    if not said or not answer:
        return False
    calls, answered = _calls(said), _calls(answer)
    if calls or answered:
        return calls == answered
    words, before = _words(said), _words(answer)
    return words == before or (bool(words) and bool(before) and (words in before or before in words))


def leading_answer(messages: Iterable[Any]) -> int:
    """How many messages there are at the beginning that only a model can have said."""
    return sum(1 for _ in takewhile(_is_models, messages))


def _is_models(message: Any) -> bool:
    said = read_message(message)
    if not said:  # an empty answer, repeated
        return isinstance(message, dict) and message.get("role") in MODEL_ROLES
    return all(map(is_model_side, said))


def _leading_answer(messages: Iterable[Any]) -> list[AnyItem]:
    found = list(messages)
    return read_messages(found[: leading_answer(found)])


def _last_run(last: Node) -> list[AnyItem]:
    """What the model said up to this message of its own, without a word of somebody else in between."""
    run = takewhile(_is_models, (node.message for node in islice(last.up(), _MOST_PARTS)))
    return read_messages(reversed(list(run)))


def answer_key(items: Sequence[AnyItem]) -> Hashable:
    """The same for an answer and for what repeats it; None where there is nothing to compare."""
    return tuple(_calls(items)) or _words(items) or None


def _calls(items: Iterable[AnyItem]) -> list[tuple[str, str]]:
    """The calls of tools, comparable: by their ids, where there are none by what they say."""
    return sorted((item.name, item.id or dump(item.arguments)) for item in items if isinstance(item, ToolCall))


def _words(items: Iterable[AnyItem]) -> str:
    said = [item for item in items if not isinstance(item, Reasoning | ToolCall)]
    return " ".join(" ".join(map(_bare, said)).split())


def _bare(item: AnyItem) -> str:
    return plain_words(item.parts) if isinstance(item, Message) else as_text(getattr(item, "text", ""))


def _longest_line(answer: Sequence[AnyItem]) -> str:
    lines = [
        line.strip() for item in answer if isinstance(item, Message) for line in plain_words(item.parts).splitlines()
    ]
    return max(lines, key=len, default="")


def _uses(index: int, answer: Iterable[AnyItem]) -> Iterator[_Use]:
    for item in answer:
        if isinstance(item, ToolCall):
            for words in (item.table or {}).values():
                if isinstance(words, str) and len(words.strip()) >= _LEAST_PROMPT:
                    yield _Use(Starter(index, item.id), words.strip())


def _opened(end: Node) -> list[str]:
    """What somebody said to begin a conversation, before the model said anything in it."""
    found: list[Parts] = []
    for node in below(end, None):
        said = read_message(node.message)
        if any(map(is_model_side, said)):
            break
        found += [item.parts for item in said if isinstance(item, Message) and item.role == "user"]
    return [part for parts in found for part in parts if isinstance(part, str)]


def _family(request: Mapping[str, Any], end: Node) -> tuple[bool, frozenset[str]]:
    inside = [as_text(content) for content in end.system]
    return bool(request.get("tools")), frozenset((*read_system(request)[:MOST_PROMPTS], *inside))


# What is new in a call: the messages that its thread has not had yet, and no echo of the model's answers.


class FreshMessages:
    """Follows one thread from call to call, knowing where the conversation of each call ends."""

    def __init__(self, ends: Mapping[int, Node]) -> None:
        self._ends = ends
        self._said: set[int] = set()
        self._answers: set[Hashable] = set()

    def new(self, index: int, before: int | None, previous: Sequence[AnyItem], how: How) -> tuple[Any, ...]:
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

    def answered(self, answer: Sequence[AnyItem]) -> None:
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
