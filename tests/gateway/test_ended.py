"""What becomes of a call that has ended: a line that can always be read again."""

import datetime as dt
from typing import Any

import orjson
import pytest

from seatrial.gateway.ended import EndedCall, as_line, checked, line_values
from seatrial.model.base import MAX_JSON_DEPTH
from seatrial.model.trace import CallError, ModelCall, TokenUsage

NOT_KEPT = {"not_kept": "nested deeper than 100 levels"}


def ended(**fields: Any) -> EndedCall:
    """A call; what is not given is as in a call that was never answered."""
    values: dict[str, Any] = dict.fromkeys(EndedCall.__annotations__)
    values |= {"index": 0, "path": "/v1/messages", "started_at": dt.datetime(2026, 1, 2, tzinfo=dt.UTC)}
    values |= {"duration_sec": 0.5, "stream": False, "messages": []}
    return EndedCall(**{**values, **fields})  # type: ignore[typeddict-item]


def nested(depth: int) -> dict[str, Any]:
    """An object of so many levels below the first."""
    value: dict[str, Any] = {}
    for number in range(depth):
        value = {"in": value} if number % 2 else {"in": [], "deeper": value}
    return value


def test_it_has_the_fields_of_a_model_call():
    assert {*EndedCall.__annotations__, "known"} == ModelCall.model_fields.keys()


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"error": CallError(kind="budget", message="enough")},
        {"error": CallError(kind="agent", status=400, message="no"), "status": 400, "response": {"error": None}},
        {"usage": TokenUsage(input_tokens=1), "cost_usd": 0.25, "dialect": "anthropic", "request": {"a": [None]}},
        {"request": nested(MAX_JSON_DEPTH), "response": {"many": [[]] * 200}, "messages": [{"content": "{[" * 100}]},
    ],
)
def test_its_line_is_read_as_the_call_that_it_is(fields):
    call = ended(**fields)
    line = as_line(line_values(call))
    assert ModelCall.model_validate_json(line) == checked(call)
    assert checked(call).request == call["request"]
    assert (line.count(b"\n"), line[-1:]) == (1, b"\n")


def test_what_is_not_there_is_not_written():
    line = orjson.loads(as_line(line_values(ended(error=CallError(kind="budget", message="enough")))))
    assert line.keys() == {"index", "path", "started_at", "duration_sec", "stream", "messages", "error"}
    assert line["error"] == {"kind": "budget", "message": "enough"}


@pytest.mark.parametrize("depth", [MAX_JSON_DEPTH + 1, 300])
def test_only_what_is_too_deep_is_left_out_and_said_so(depth):
    call = ended(request=nested(depth), response={"fine": 1}, messages=["hello"])
    read = ModelCall.model_validate_json(as_line(line_values(call)))
    assert (read.request, read.response, read.messages) == (NOT_KEPT, {"fine": 1}, ["hello"])
    assert checked(call) == read


def test_what_cannot_be_written_for_another_reason_is_an_error():
    with pytest.raises(orjson.JSONEncodeError):
        as_line(line_values(ended(path="\udc80")))
