"""JSON of strangers: whatever they wrote is a value of the type that was asked for, absent, or named with its place."""

import datetime as dt
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from seatrial.model.base import MAX_JSON_DEPTH
from seatrial.model.trace import TokenUsage
from seatrial.untrusted.json import (
    Unreadable,
    count,
    decode,
    dump,
    first_fault,
    is_too_deep,
    items,
    mapping,
    moment,
    number,
    parse,
    parse_object,
    parse_strict,
    read_strict,
    short_text,
    text,
    whole_number,
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.datetimes(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_a_field_is_what_it_should_be_or_absent(value):
    assert mapping(value) == (value if isinstance(value, dict) else {})
    assert items(value) == (value if isinstance(value, list) else [])
    assert text(value) == (value if isinstance(value, str) and value else None)
    assert whole_number(value) == (value if type(value) is int else None)
    assert (found := number(value)) is None or math.isfinite(found)
    assert (found := count(value)) is None or (found == value and 0 <= found < 2**63)
    assert (when := moment(value)) is None or when.tzinfo is dt.UTC


@pytest.mark.parametrize(
    ("value", "expected"), [(3, 3), (3.0, 3), (3.5, None), (-1, None), (True, None), (2**63, None), ("3", None)]
)
def test_a_count_may_be_written_as_a_fraction(value, expected):
    assert count(value) == expected


@pytest.mark.parametrize(
    ("value", "year"),
    [
        (0, None),
        (-1.0, None),
        (1e300, None),
        (1_000_000_000, 2001),
        ("x", None),
        ("2026-01-01T00:00:00", None),
        ("2026-01-01T00:00:00+02:00", 2025),
        ("0001-01-01T00:00:00+14:00", None),
    ],
)
def test_a_moment_is_known_only_with_its_offset(value, year):
    when = moment(value)
    assert (when.year if when else None) == year


def test_a_very_long_text_is_cut():
    assert short_text("x" * 4_000) == "x" * 4_000
    assert short_text("x" * 4_001) == "x" * 4_000 + "…"


@given(st.binary() | st.text())
def test_any_bytes_are_json_or_nothing(data):
    assert parse(data) is None or parse(data) == json.loads(data)
    assert parse_object(data) is None


@given(JSON)
def test_a_value_is_written_and_read_again(value):
    written = dump(value)
    assert parse(written) == parse_strict(written) == read_strict(written.encode()) == value
    assert parse_object(written) == (value if isinstance(value, dict) else None)


def test_text_that_no_encoding_can_hold_is_written_as_escapes():
    assert dump(["\udcff"]) == '["\\udcff"]'


@given(st.binary())
def test_any_bytes_are_text_or_refused_with_their_place(data):
    try:
        assert decode(data).encode() == data.removeprefix(b"\xef\xbb\xbf")
    except Unreadable as error:
        assert "(line " in str(error)
    assert isinstance(decode(data, "replace"), str)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"a": 1, "a": 2}', "the key 'a' appears twice"),
        (b"[1,\n NaN]", "not JSON: .*line 2, column 2"),
        (b"[" * 500, "not JSON"),
        (b"[" * (MAX_JSON_DEPTH + 1) + b"]" * (MAX_JSON_DEPTH + 1), "nested deeper than"),
        (b"\xff\xfe[\0]\0", "found UTF-16 text"),
        (b"[\n\xff]", "found byte 0xff, expected UTF-8 text .line 2, column 1."),
    ],
    ids=["duplicate", "NaN", "brackets", "deep", "UTF-16", "bytes"],
)
def test_what_a_file_may_not_hold_is_named(data, reason):
    with pytest.raises(Unreadable, match=reason):
        read_strict(data)


@pytest.mark.parametrize("wrap", [lambda value: [value], lambda value: {"a": value}], ids=["array", "object"])
def test_depth_is_counted_by_level(wrap):
    value = wrap(1)
    for _ in range(MAX_JSON_DEPTH):
        value = wrap(value)
    assert not is_too_deep(value)
    assert is_too_deep(wrap(value))


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        ('{"input_tokens": "1"}', "input_tokens: Input should be a valid integer"),
        ("[]", "the usage: Input should be an object"),
        ("{", "the usage: Invalid JSON: EOF while parsing an object at line 1 column 1"),
    ],
)
def test_the_first_fault_of_a_value_is_named_with_its_place(data, fault):
    with pytest.raises(ValidationError) as caught:
        TokenUsage.model_validate_json(data)
    assert first_fault(caught.value, "the usage") == fault
    assert first_fault(caught.value) == fault.removeprefix("the usage: ")
