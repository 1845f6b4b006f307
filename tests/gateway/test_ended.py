"""What becomes of a call that has ended: a line that can always be read again."""

import datetime as dt
from typing import Any

import orjson
import pytest

from seatrial.gateway.ended import EndedCall, TokenCounts, ToldReason, as_line, checked, line_values
from seatrial.model.base import MAX_JSON_DEPTH
from seatrial.model.trace import CallError, ModelCall, TokenUsage

COUNTS: TokenCounts = {"input_tokens": 1, "cached_tokens": 0, "output_tokens": 2, "reasoning_tokens": 0}
NOT_KEPT = {"not_kept": "nested deeper than 100 levels"}


def ended(**fields: Any) -> EndedCall:
    """A call; what is not given is as in a call that was never answered."""
    values: dict[str, Any] = {"index": 0, "path": "/v1/messages", "started_at": dt.datetime(2026, 1, 2, tzinfo=dt.UTC)}
    values |= {"duration_sec": 0.5, "stream": False, "messages": []}
    return EndedCall(**{**values, **fields})  # type: ignore[typeddict-item]


def nested(depth: int) -> dict[str, Any]:
    """An object of so many levels below the first."""
    value: dict[str, Any] = {}
    for number in range(depth):
        value = {"in": value} if number % 2 else {"in": [], "deeper": value}
    return value


def test_it_has_the_fields_of_a_model_call():
    assert {*EndedCall.__annotations__, "known", "known_parts", "marks"} == ModelCall.model_fields.keys()
    assert TokenCounts.__annotations__.keys() == TokenUsage.model_fields.keys()
    assert ToldReason.__annotations__.keys() == CallError.model_fields.keys()


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"error": {"kind": "budget", "message": "enough"}},
        {"error": {"kind": "agent", "status": 400, "message": "no"}, "status": 400, "response": {"error": None}},
        {"usage": COUNTS, "cost_usd": 0.25, "dialect": "anthropic", "request": {"a": [None]}},
        {"request": nested(MAX_JSON_DEPTH), "response": {"many": [[]] * 200}, "messages": [{"content": "{[" * 100}]},
    ],
)
def test_its_line_is_read_as_the_call_that_it_is(fields):
    call = ended(**fields)
    line = as_line(line_values(call))
    assert ModelCall.model_validate_json(line) == checked(call)
    assert checked(call).request == call.get("request")
    assert (line.count(b"\n"), line[-1:]) == (1, b"\n")


def test_what_is_not_there_is_not_written():
    call = ended(error={"kind": "budget", "message": "enough"}, usage=COUNTS)
    line = orjson.loads(as_line(line_values(checked(call))))
    assert line.keys() == {"index", "path", "started_at", "duration_sec", "stream", "messages", "usage", "error"}
    assert (line["usage"], line["error"]) == (COUNTS, {"kind": "budget", "message": "enough"})


@pytest.mark.parametrize("depth", [MAX_JSON_DEPTH + 1, 300])
def test_only_what_is_too_deep_is_left_out_and_said_so(depth):
    call = ended(request=nested(depth), response={"fine": 1}, messages=["hello"])
    read = ModelCall.model_validate_json(as_line(line_values(call)))
    assert (read.request, read.response, read.messages) == (NOT_KEPT, {"fine": 1}, ["hello"])
    assert checked(call) == read


def test_what_cannot_be_written_for_another_reason_is_an_error():
    with pytest.raises(orjson.JSONEncodeError):
        as_line(line_values(ended(path="\udc80")))
