"""Judges that do as a test says, and evidence to show them."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from seatrial.judge.assess import Judge, JudgeReply
from seatrial.judge.evidence import Evidence, text_piece
from seatrial.judge.questions import JudgeCall
from seatrial.judge.rubric import Rubric, parse_rubric
from seatrial.model.assessment import JudgeRef

Say = Callable[[JudgeCall], str | JudgeReply | Exception]
OUTPUT = "/workspace/report.md"


def rubric(text: str) -> Rubric:
    return parse_rubric(text.encode(), "rubric.toml", "report")


def evidence(text: str = "The drop is 4.2 V.", **more: str) -> Evidence:
    return Evidence((text_piece("output", OUTPUT, text), *(text_piece("output", k, v) for k, v in more.items())), "d")


def answers(**given: Any) -> str:
    """What a well-behaved judge writes: its answers by the names of questions."""
    return json.dumps(
        {name: {"reason": f"because of {name}", "quotes": [], "answer": value} for name, value in given.items()}
    )


class FakeJudge:
    """A model that answers with what a function of the call gives, and remembers the calls."""

    def __init__(self, say: Say, name: str = "judge-1") -> None:
        self._say = say
        self.ref = JudgeRef(model=name)
        self.calls: list[JudgeCall] = []

    async def ask(self, call: JudgeCall) -> JudgeReply:
        self.calls.append(call)
        said = self._say(call)
        if isinstance(said, Exception):
            raise said
        return said if isinstance(said, JudgeReply) else JudgeReply(said, 100, 10, 0.001)

    @property
    def judge(self) -> Judge:
        return Judge(self.ref, self.ask)


def asked(call: JudgeCall) -> list[str]:
    """The questions of a call."""
    return list(call.schema["properties"])


def fair(known: Mapping[str, Any], name: str = "judge-1") -> FakeJudge:
    """A judge that always gives the same answers, and sees itself addressed by nothing."""
    every = {"addresses_evaluator": False, **known}
    return FakeJudge(lambda call: answers(**{each: every[each] for each in asked(call)}), name)


def in_turn(said: Sequence[str | JudgeReply | Exception], name: str = "judge-1") -> FakeJudge:
    """A judge that gives one answer after the other."""
    left = list(said)
    return FakeJudge(lambda _: left.pop(0), name)
