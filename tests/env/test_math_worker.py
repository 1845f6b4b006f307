"""The process that compares answers, with a stand-in for the package that does so."""

import io
import sys
from types import SimpleNamespace

import pytest

from seatrial.env.math_worker import is_same, main


class TooLate(BaseException):
    """What the package raises when its time is up."""


def parse(text, parsing_timeout):
    if "slow" in text:
        raise TooLate(parsing_timeout)
    return text.removeprefix(r"\boxed{").removesuffix("}").replace(" ", "")


def verify(answer, response, timeout_seconds):
    if "stop" in answer:
        raise KeyboardInterrupt
    return answer == response


STAND_IN = SimpleNamespace(parse=parse, verify=verify)


def test_lines_are_answered_one_by_one(monkeypatch):
    monkeypatch.setitem(sys.modules, "math_verify", STAND_IN)
    said = io.StringIO()
    lines = ['{"answer": "1 / 2", "response": "1/2", "seconds": 5}', '{"answer": "1", "response": "2", "seconds": 5}']
    main(io.StringIO("\n".join(lines)), said)
    assert said.getvalue() == "1\n0\n"


def test_what_cannot_be_read_in_time_is_not_the_same_and_an_interruption_is_one():
    assert not is_same(STAND_IN, {"answer": "1", "response": "slow", "seconds": 1})
    with pytest.raises(KeyboardInterrupt):
        is_same(STAND_IN, {"answer": "stop", "response": "1", "seconds": 1})
