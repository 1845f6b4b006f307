"""How the calls of a trial hang together: which one goes on from which, and which tool call started which.

No agent says so. It is told by what their conversations have in common, in this order: a conversation goes on from one
that it begins with and whose answer it repeats; a sub-agent begins with words that are an argument of a tool call;
after a compaction, an agent begins again with words that are the answer to the call before; and one that rewrites the
end of its conversation still has its beginning.
"""

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from typing import Any, Literal, NamedTuple

from seatrial.gateway.dialects.fields import dump, parse_object, text
from seatrial.model.trace import ModelCall
from seatrial.trajectories.asked import is_answered
from seatrial.trajectories.items import (
    MODEL_ROLES,
    Item,
    Pieces,
    Thought,
    ToolUse,
    Words,
    as_text,
    is_model_side,
    plain_words,
)
from seatrial.trajectories.paths import MOST_PROMPTS, Node, below
from seatrial.trajectories.reading import read_answer, read_message, read_messages, read_system

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
        self._answers: dict[int, list[Item]] = {}
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

    def answer(self, index: int) -> list[Item]:
        """What was answered to a call; nothing if it was not."""
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


def echoes(said: Sequence[Item], answer: Sequence[Item]) -> bool:
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


def _leading_answer(messages: Iterable[Any]) -> list[Item]:
    found = list(messages)
    return read_messages(found[: leading_answer(found)])


def _last_run(last: Node) -> list[Item]:
    """What the model said up to this message of its own, without a word of somebody else in between."""
    run = takewhile(_is_models, (node.message for node in islice(last.up(), _MOST_PARTS)))
    return read_messages(reversed(list(run)))


def answer_key(items: Sequence[Item]) -> Hashable:
    """The same for an answer and for what repeats it; None where there is nothing to compare."""
    return tuple(_calls(items)) or _words(items) or None


def _calls(items: Iterable[Item]) -> list[tuple[str, str]]:
    """The calls of tools, comparable: by their ids, where there are none by what they say."""
    return sorted((item.name, item.id or dump(item.arguments)) for item in items if isinstance(item, ToolUse))


def _words(items: Iterable[Item]) -> str:
    said = [item for item in items if not isinstance(item, Thought | ToolUse)]
    return " ".join(" ".join(map(_bare, said)).split())


def _bare(item: Item) -> str:
    return plain_words(item.pieces) if isinstance(item, Words) else as_text(getattr(item, "text", ""))


def _longest_line(answer: Sequence[Item]) -> str:
    lines = [
        line.strip() for item in answer if isinstance(item, Words) for line in plain_words(item.pieces).splitlines()
    ]
    return max(lines, key=len, default="")


def _uses(index: int, answer: Iterable[Item]) -> Iterator[_Use]:
    for item in answer:
        if isinstance(item, ToolUse):
            for words in _strings(item.arguments):
                if len(words.strip()) >= _LEAST_PROMPT:
                    yield _Use(Starter(index, item.id), words.strip())


def _strings(arguments: Any) -> Iterator[str]:
    """The texts among the arguments of a call."""
    value = parse_object(arguments) if isinstance(arguments, str) else arguments
    if isinstance(value, dict):
        yield from (each for each in value.values() if isinstance(each, str))


def _opened(end: Node) -> list[str]:
    """What somebody said to begin a conversation, before the model said anything in it."""
    found: list[Pieces] = []
    for node in below(end, None):
        said = read_message(node.message)
        if any(map(is_model_side, said)):
            break
        found += [item.pieces for item in said if isinstance(item, Words) and item.role == "user"]
    return [piece for pieces in found for piece in pieces if isinstance(piece, str)]


def _family(request: Mapping[str, Any], end: Node) -> tuple[bool, frozenset[str]]:
    inside = [as_text(content) for content in end.system]
    return bool(request.get("tools")), frozenset((*read_system(request)[:MOST_PROMPTS], *inside))
