"""The calls of a trial as a conversation in threads: each thing that was said is told once, where it came up."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from seatrial.model.trace import ModelCall
from seatrial.report.conversation import Utterance, offered, utterances
from seatrial.trajectories.items import Item
from seatrial.trajectories.reading import read_answer, read_messages
from seatrial.trajectories.threads import Thread, ThreadCall


class CallParts(NamedTuple):
    """A call, the name of its thread if there are several, and what is new in it: what it offers, hears and answers."""

    call: ModelCall
    thread: str | None
    offered: list[Utterance]
    heard: list[Item]
    answered: list[Item]


class ToldCall(NamedTuple):
    """A call, the name of its thread if there are several, and what is new in it."""

    call: ModelCall
    thread: str | None
    said: list[Utterance]


@dataclass(slots=True)
class _Teller:
    """Knows what of system prompts and tools a thread has been told to have."""

    thread: Thread
    full: bool
    offered: set[Utterance] = field(default_factory=set)

    def part(self, each: ThreadCall, name: str | None) -> CallParts:
        asked = [said for said in offered(each.request, full=self.full) if said not in self.offered]
        self.offered.update(asked)
        begun = [Utterance("compacted", "the conversation begins anew")] if each.how == "compacted" else []
        return CallParts(each.call, name, [*asked, *begun], read_messages(each.new), read_answer(each.call.response))


def tell_calls(calls: Sequence[ModelCall], threads: Sequence[Thread], *, full: bool) -> Iterator[ToldCall]:
    """All calls as they came, in words."""
    for parts in part_calls(calls, threads, full=full):
        said = [each for item in (*parts.heard, *parts.answered) for each in utterances(item)]
        yield ToldCall(parts.call, parts.thread, [*parts.offered, *said])


def part_calls(calls: Sequence[ModelCall], threads: Sequence[Thread], *, full: bool) -> Iterator[CallParts]:
    """All calls as they came. Those without a conversation are in no thread."""
    placed: dict[int, tuple[_Teller, ThreadCall]] = {}
    for thread in threads:
        teller = _Teller(thread, full)
        placed.update({each.call.index: (teller, each) for each in thread.calls})
    for call in calls:
        if call.index in placed:
            teller, each = placed[call.index]
            yield teller.part(each, teller.thread.name if len(threads) > 1 else None)
        else:
            yield CallParts(call, None, [], read_messages(call.messages), read_answer(call.response))


def describe_threads(threads: Sequence[Thread]) -> list[str]:
    """A line for each thread: how many calls it has, and what started it."""
    return [f"{thread.name}: {_facts(thread)}" for thread in threads]


def _facts(thread: Thread) -> str:
    count = len(thread.calls)
    facts = ["1 call" if count == 1 else f"{count} calls"]
    if thread.starter:
        facts.append(f"started by {thread.starter.tool_call_id or 'a tool'} of call {thread.starter.call}")
    if thread.branches_from is not None:
        facts.append(f"branches off after call {thread.branches_from}")
    return ", ".join(facts)
