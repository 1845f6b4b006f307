"""The calls of a trial as a conversation in threads: each thing that was said is told once, where it came up."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from seatrial.model.trace import ModelCall
from seatrial.report.conversation import Utterance, answer, offered, told
from seatrial.trajectories.threads import Thread, ThreadCall


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

    def tell(self, each: ThreadCall) -> list[Utterance]:
        asked = [said for said in offered(each.request, full=self.full) if said not in self.offered]
        self.offered.update(asked)
        begun = [Utterance("compacted", "the conversation begins anew")] if each.how == "compacted" else []
        return [*asked, *begun, *told(each.new), *answer(each.call.response)]


def tell_calls(calls: Sequence[ModelCall], threads: Sequence[Thread], *, full: bool) -> Iterator[ToldCall]:
    """All calls as they came. Those without a conversation are in no thread."""
    placed: dict[int, tuple[_Teller, ThreadCall]] = {}
    for thread in threads:
        teller = _Teller(thread, full)
        placed.update({each.call.index: (teller, each) for each in thread.calls})
    for call in calls:
        if call.index in placed:
            teller, each = placed[call.index]
            yield ToldCall(call, teller.thread.name if len(threads) > 1 else None, teller.tell(each))
        else:
            yield ToldCall(call, None, [*told(call.messages), *answer(call.response)])


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
