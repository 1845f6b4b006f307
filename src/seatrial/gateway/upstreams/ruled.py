"""RuledModel: a model that follows the rules of a script, and fails loudly when none is for a call."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from seatrial.errors import ProviderError
from seatrial.gateway.api import ModelReply, ModelRequest
from seatrial.gateway.upstreams.answers import ALL_DIALECTS, final_error, side_answer
from seatrial.gateway.upstreams.asked import AskedCall, read_asked
from seatrial.gateway.upstreams.script_rules import RuledScript, ScriptRule, Thread
from seatrial.gateway.upstreams.scripted import ScriptLine, say_line
from seatrial.model.trace import Dialect

_SHOWN_TOOLS = 12
_SHOWN_CHARACTERS = 200
_SIDE_SERIALS = 10_000


class RuledModel:
    """Answers each call by the first rule that fits it.

    The main thread is the first conversation that offers tools; all others are beside it. What a rule has said already
    is counted for each conversation by itself, so that it does not matter which of several goes first.
    """

    def __init__(self, script: RuledScript) -> None:
        self._script = script
        self._main: int | None = None
        self._said: Counter[tuple[int, bool, ScriptRule | None]] = Counter()

    @property
    def dialects(self) -> frozenset[Dialect]:
        """All of them."""
        return ALL_DIALECTS

    def fresh(self) -> "RuledModel":
        """The same script, of which nothing is said yet, for another trial."""
        return RuledModel(self._script)

    @asynccontextmanager
    async def ask(self, request: ModelRequest) -> AsyncIterator[ModelReply]:
        """The answer of the first rule that fits. Raises ProviderError when it is a failure, or when none fits."""
        if request.dialect is None:
            yield side_answer(request, "scripted")
        else:
            yield self._answer(request)

    def _answer(self, request: ModelRequest) -> ModelReply:
        asked = read_asked(request)
        has_tools = bool(asked.tools)
        if has_tools and self._main is None:
            self._main = asked.opening
        thread: Thread = "main" if has_tools and asked.opening == self._main else "side"
        line = self._line(asked, thread)
        if line is None:
            raise self._complaint(asked, thread)
        self._said[asked.opening, has_tools, None] += 1
        # By the conversation and its calls, not by all calls so far: these may come in another order another time.
        serial = self._said[asked.opening, has_tools, None]
        serial += 0 if thread == "main" else _SIDE_SERIALS * (1 + asked.opening % (_SIDE_SERIALS - 1))
        return say_line(request, line, serial)

    def _line(self, asked: AskedCall, thread: Thread) -> ScriptLine | None:
        for rule in self._script.rules:
            if not rule.when.fit(asked, thread):
                continue
            key = (asked.opening, bool(asked.tools), rule)
            if (line := rule.line(self._said[key])) is not None:
                self._said[key] += 1
                return line
        return None if asked.tools else self._script.title

    def _complaint(self, asked: AskedCall, thread: Thread) -> ProviderError:
        rules = enumerate(self._script.rules, start=1)
        done = [str(number) for number, rule in rules if rule.when.fit(asked, thread)]
        spent = f" (rule {', '.join(done)} would, but has said all its answers)" if done else ""
        more = f" and {len(asked.tools) - _SHOWN_TOOLS} more" if len(asked.tools) > _SHOWN_TOOLS else ""
        offer = f"the tools {', '.join(asked.tools[:_SHOWN_TOOLS])}{more}" if asked.tools else "no tools"
        # The end of it: what comes before is often what an agent tells with every question.
        last = asked.last[-_SHOWN_CHARACTERS:]
        return final_error(
            f"no rule of {self._script.name} answers this call{spent}: model {asked.model!r}, {offer}, "
            f"{thread} thread, turn {asked.turn}; said last, by the {asked.by}: {last!r}"
        )
