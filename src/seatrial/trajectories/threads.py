"""The threads of a trial: its main conversation, and those beside it, told apart from the record of its calls alone.

A call that does not go on from another begins a thread. Where two go on from the same call, the one with more calls
after it is the thread's, and the other is a thread of its own. The main thread is the one with tools that lasts
longest.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal

from seatrial.gateway.calls import RecordedCalls
from seatrial.messages import AnyItem, Message, ToolCall, ToolResult, plain_words
from seatrial.model.trace import ModelCall
from seatrial.trajectories.paths import FreshMessages, How, Link, Linker, Node, Starter, grow
from seatrial.trajectories.reading import read_messages, read_system

ThreadKind = Literal["main", "sub-agent", "side", "branch"]
MAIN = "main"
_LEAST_LAST_WORDS = 20
_MOST_OUTPUTS = 64  # that are searched for the last words of one thread
_SIDES = {"title": "title", "summar": "summary"}


@dataclass(frozen=True, slots=True)
class ThreadCall:
    """A call at its place in a thread."""

    call: ModelCall
    request: dict[str, Any]
    new: tuple[Any, ...]
    """The messages that the thread has not had yet."""
    answer: tuple[AnyItem, ...]
    how: How = "continues"
    """How it goes on from the call before."""
    taken: bool = True
    """Whether the conversation went on from its answer; if not, it was asked for once more."""


@dataclass(frozen=True, slots=True)
class Thread:
    """A conversation."""

    name: str
    kind: ThreadKind
    calls: tuple[ThreadCall, ...]
    starter: Starter | None = None
    """The tool call that started it, where that can be told."""
    branches_from: int | None = None
    """The call that it goes on from beside another thread."""

    @property
    def has_tools(self) -> bool:
        return any(each.request.get("tools") for each in self.calls)


def find_threads(calls: Iterable[ModelCall]) -> list[Thread]:
    """The threads of a trial, the main one first, the others as they began. Calls without a conversation are in none.

    Raises ValueError if a call builds on one that is not there.
    """
    ordered = sorted(calls, key=lambda call: call.index)
    ends = grow(ordered)
    spoken = [call for call in ordered if call.dialect and ends[call.index].depth]
    return _named(_Forest(spoken, RecordedCalls(ordered), ends).threads()) if spoken else []


class _Forest:
    """Calls as trees: those that ask the same are one group, and a group hangs on the one that it goes on from."""

    def __init__(self, calls: Sequence[ModelCall], recorded: RecordedCalls, ends: dict[int, Node]) -> None:
        self._requests = {call.index: recorded.plain_request(call.index) or {} for call in calls}
        self._linker = Linker(ends, self._requests)
        self._ends = ends
        self._calls = {call.index: call for call in calls}
        self._links: dict[int, Link] = {call.index: self._linker.add(call) for call in calls}
        self._groups: dict[int, list[int]] = defaultdict(list)
        for index, link in self._links.items():
            self._groups[index if link.repeats is None else link.repeats].append(index)
        self._after: dict[int, list[int]] = defaultdict(list)
        for first in self._groups:
            if (earlier := self._links[first].earlier) is not None:
                self._after[self._leader(earlier)].append(first)
        self._sizes = self._count()

    def threads(self) -> list[Thread]:
        starts = [first for first in self._groups if self._links[first].earlier is None]
        return [thread for first in starts for thread in self._grown(first)]

    def _leader(self, index: int) -> int:
        repeats = self._links[index].repeats
        return index if repeats is None else repeats

    def _count(self) -> dict[int, int]:
        sizes = {first: len(members) for first, members in self._groups.items()}
        for first in sorted(self._groups, reverse=True):  # what goes on from a call comes after it
            earlier = self._links[first].earlier
            if earlier is not None:
                sizes[self._leader(earlier)] += sizes[first]
        return sizes

    def _grown(self, start: int) -> list[Thread]:
        """The thread that begins with a group, and those that branch off it."""
        pending, threads = [start], list[Thread]()
        while pending:
            first = pending.pop(0)
            thread, branches = self._thread(first)
            threads.append(thread)
            pending += branches
        return threads

    def _thread(self, first: int) -> tuple[Thread, list[int]]:
        link = self._links[first]
        calls: list[ThreadCall] = []
        branches: list[int] = []
        before, at = link.earlier, first
        told = FreshMessages(self._ends)
        while True:
            ahead = self._ahead(at)
            branches += ahead[1:]
            taken = self._taken(at, ahead[0] if ahead else None)
            for number, index in enumerate(self._groups[at]):
                how = self._links[at].how if calls else "continues"
                answer = tuple(self._linker.answer(index))
                previous = self._linker.answer(before) if before is not None else []
                new = told.new(index, before, previous, how) if number == 0 else ()
                calls.append(
                    ThreadCall(self._calls[index], self._requests[index], new, answer, how, taken=index == taken)
                )
            told.answered(self._linker.answer(taken))
            if not ahead:
                break
            before, at = taken, ahead[0]
        kind: ThreadKind = "side" if link.earlier is None else "branch"
        return Thread("", kind, tuple(calls), link.starter, link.earlier), branches

    def _ahead(self, first: int) -> list[int]:
        """The groups that go on from one, the one that the thread follows first."""
        tools = bool(self._requests[first].get("tools"))

        def weight(group: int) -> tuple[int, bool, int]:
            return self._sizes[group], bool(self._requests[group].get("tools")) == tools, group

        return sorted(self._after[first], key=weight, reverse=True)

    def _taken(self, first: int, following: int | None) -> int:
        """Which of several equal calls the conversation went on from: without one, the last that was answered."""
        group = self._groups[first]
        if following is not None and (earlier := self._links[following].earlier) in group:
            return earlier
        answered = [index for index in group if self._linker.answer(index)]
        return (answered or group)[-1]


def _named(threads: list[Thread]) -> list[Thread]:
    main = max(threads, key=_lasts)
    others = sorted((thread for thread in threads if thread is not main), key=lambda each: each.calls[0].call.index)
    outputs = list(_outputs(threads))
    kinds = [replace(main, name=MAIN, kind="main")]
    counts: Counter[str] = Counter()
    for thread in others:
        starter = thread.starter or _by_result(thread, outputs)
        kind: ThreadKind = "sub-agent" if starter or (thread.has_tools and thread.kind == "side") else thread.kind
        word = _side(thread) if kind == "side" else kind
        counts[word] += 1
        name = word if counts[word] == 1 and kind == "side" else f"{word} {counts[word]}"
        kinds.append(replace(thread, name=name, kind=kind, starter=starter))
    return kinds


def _lasts(thread: Thread) -> tuple[bool, bool, int, int]:
    first, last = thread.calls[0].call.index, thread.calls[-1].call.index
    return thread.starter is None and thread.branches_from is None, thread.has_tools, last - first, -first


@dataclass(frozen=True, slots=True)
class _Output:
    thread: Thread
    call: int
    starter: Starter
    text: str


def _outputs(threads: Sequence[Thread]) -> Iterable[_Output]:
    """The results of tools in all threads, with the calls that they belong to."""
    for thread in threads:
        used: dict[str, int] = {}
        for each in thread.calls:
            for item in read_messages(each.new):
                if isinstance(item, ToolResult) and item.id in used:
                    starter = Starter(used[item.id], item.id)
                    yield _Output(thread, each.call.index, starter, plain_words(item.parts))
            used.update({item.id: each.call.index for item in each.answer if isinstance(item, ToolCall)})


def _by_result(thread: Thread, outputs: Sequence[_Output]) -> Starter | None:
    """The tool call whose result holds the last words of a thread."""
    words = [plain_words(item.parts).strip() for item in thread.calls[-1].answer if isinstance(item, Message)]
    last = words[-1] if words else ""
    first, end = thread.calls[0].call.index, thread.calls[-1].call.index
    if thread.branches_from is not None or len(last) < _LEAST_LAST_WORDS:
        return None
    later = (each for each in outputs if each.thread is not thread and each.starter.call < first and each.call > end)
    return next((output.starter for output in islice(later, _MOST_OUTPUTS) if last in output.text), None)


def _side(thread: Thread) -> str:
    """What a thread beside the others is for, as far as it says so."""
    first = thread.calls[0]
    asked = [plain_words(item.parts) for item in read_messages(first.new) if isinstance(item, Message)]
    text = "\n".join([*read_system(first.request), *asked[:1], *asked[-1:]]).lower()
    return next((name for word, name in _SIDES.items() if word in text), "side")
