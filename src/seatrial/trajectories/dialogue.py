"""A thread as a model saw it at its end, for training: its system prompt, all messages, and the last answer.

After a compaction the model saw something else than before, so each stretch between compactions is a dialogue.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from seatrial.gateway.recorded import RecordedCalls
from seatrial.trajectories.asked import read_tools
from seatrial.trajectories.items import Item, Words
from seatrial.trajectories.reading import read_messages, read_system
from seatrial.trajectories.threads import Thread, ThreadCall


@dataclass(frozen=True, slots=True)
class Dialogue:
    """What was said, from the system prompt to the last answer, and which functions the model could call."""

    thread: str
    number: int
    model: str | None
    tools: tuple[dict[str, Any], ...]
    items: tuple[Item, ...]


def dialogues(recorded: RecordedCalls, thread: Thread) -> Iterator[Dialogue]:
    """The dialogues of a thread that have an answer. Raises ValueError if a call builds on one that is not there."""
    for number, last in enumerate(_last_answered(thread), 1):
        system = [Words("system", (block,)) for block in read_system(last.request)]
        said = read_messages(recorded.plain_messages(last.call.index))
        tools = tuple(tool for tool in read_tools(last.request) if "function" in tool)
        model = last.call.upstream_model or last.call.model
        yield Dialogue(thread.name, number, model, tools, (*system, *said, *last.answer))


def _last_answered(thread: Thread) -> list[ThreadCall]:
    """The last answer of each stretch of a thread that was taken; a part of an answer teaches nothing."""
    last: list[ThreadCall | None] = [None]
    for each in thread.calls:
        if each.how == "compacted" and last[-1] is not None:
            last.append(None)
        if each.taken and each.answer and each.call.error is None:
            last[-1] = each
    return [each for each in last if each is not None]
