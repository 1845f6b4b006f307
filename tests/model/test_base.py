"""StrictModel and its field types, on a small model of each kind of field."""

import copy
import datetime as dt
import json
from typing import Any

import pytest
from pydantic import AwareDatetime, Field, ValidationError

from seatrial.model.base import (
    MAX_JSON_DEPTH,
    JsonObject,
    NonNegativeInt,
    Sha256,
    StrictModel,
    name_at,
    new,
    plain,
    plain_name,
    provider_of,
    to_json,
)
from tests.model.samples import DIGEST


class Sample(StrictModel):
    number: float = 0.0
    count: NonNegativeInt = 0
    flag: bool = False
    text: str = ""
    when: AwareDatetime | None = None
    table: JsonObject = Field(default_factory=dict)


def nested(levels: int) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for _ in range(levels):
        table = {"inner": table}
    return table


def test_a_value_cannot_be_changed():
    sample = Sample(count=1)
    with pytest.raises(ValidationError, match="frozen"):
        sample.count = 2  # type: ignore[misc]
    with pytest.raises(ValidationError, match="frozen"):
        del sample.count
    assert sample.count == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: Sample(colour="red"),  # type: ignore[call-arg]
        lambda: Sample.model_validate({"colour": "red"}),
        lambda: Sample.model_validate_json('{"colour": "red"}'),
        lambda: Sample.model_construct(colour="red"),  # type: ignore[call-arg]
        lambda: Sample().model_copy(update={"colour": "red"}),
    ],
    ids=["constructor", "validate", "json", "construct", "copy"],
)
def test_an_unknown_field_is_refused(make):
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        make()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("number", True),
        ("number", "0.5"),
        ("number", None),
        ("count", True),
        ("count", "1"),
        ("count", 1.0),
        ("flag", 1),
        ("flag", "true"),
        ("text", 1),
        ("text", b"bytes"),
        ("when", "2026-03-01T12:00:00Z"),
        ("table", [["key", 1]]),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_types_are_not_coerced(field: str, value: Any):
    with pytest.raises(ValidationError, match=field):
        Sample.model_validate({field: value})


@pytest.mark.parametrize("text", ['{"number": true}', '{"number": "1"}', '{"count": 1.0}', '{"when": 1700000000}'])
def test_types_in_json_are_not_coerced(text: str):
    with pytest.raises(ValidationError):
        Sample.model_validate_json(text)


def test_an_integer_serves_as_a_float():
    sample = Sample(number=1)
    assert type(sample.number) is float
    assert Sample.model_validate_json('{"number": 1}') == sample


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("template", ['{"number": %s}', '{"table": {"a": %s}}', '{"table": {"a": [{"b": %s}]}}'])
def test_numbers_are_finite_everywhere(template: str, literal: str):
    with pytest.raises(ValidationError):
        Sample.model_validate_json(template % literal)
    with pytest.raises(ValidationError):
        Sample.model_validate(json.loads(template % literal))


def test_times_know_their_offset():
    with pytest.raises(ValidationError, match="timezone"):
        Sample(when=dt.datetime(2026, 3, 1))  # noqa: DTZ001 - the point
    with pytest.raises(ValidationError, match="timezone"):
        Sample.model_validate_json('{"when": "2026-03-01T12:00:00"}')
    kept = Sample.model_validate_json('{"when": "2026-03-01T12:00:00-03:30"}')
    assert kept.when is not None
    assert kept.when.utcoffset() == dt.timedelta(hours=-3, minutes=-30)


def test_a_count_is_small_enough_to_be_read_back():
    try:
        sample = Sample(count=10**5000)
    except ValidationError:
        return
    assert Sample.model_validate_json(to_json(sample)) == sample


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ({1: "a"}, "valid string"),
        ({"a": {1: "b"}}, "the key 1 is not text"),
        ({"a": [{None: "b"}]}, "the key None is not text"),
        ({"a": "\ud800"}, "unpaired surrogate"),
        ({"a": {"\udfff": 1}}, "unpaired surrogate"),
        ({"a": (1, 2)}, "tuple is not a JSON type"),
        ({"a": b"x"}, "bytes is not a JSON type"),
        ({"a": dt.date(2026, 3, 1)}, "date is not a JSON type"),
        ({"a": 10**1300}, "1,200 digits"),
        (nested(MAX_JSON_DEPTH + 1), "deeper than 100"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_a_json_object_holds_only_what_survives_a_round_trip(table: Any, complaint: str):
    with pytest.raises(ValidationError, match=complaint):
        Sample(table=table)


def test_a_json_object_that_contains_itself_is_refused():
    table: dict[str, Any] = {}
    table["self"] = [table]
    with pytest.raises(ValidationError, match="deeper than"):
        Sample(table=table)


@pytest.mark.parametrize(
    "table",
    [nested(MAX_JSON_DEPTH), {"": None, "é😀": [True, 10**1200, -0.0, 5e-324, 1.7976931348623157e308, 1.0, 1]}],
    ids=["deepest", "every scalar"],
)
def test_a_json_object_comes_back_as_it_was(table: dict[str, Any]):
    sample = Sample(table=table)
    again = Sample.model_validate_json(to_json(sample))
    assert again.table == table
    assert to_json(again) == to_json(sample)


@pytest.mark.parametrize("digest", ["", DIGEST[:-1], DIGEST + "0", DIGEST.upper(), DIGEST + "\n"])
def test_a_sha256_is_64_lower_case_hex_digits(digest: str):
    class File(StrictModel):
        sha256: Sha256

    assert File(sha256=DIGEST).sha256 == DIGEST
    with pytest.raises(ValidationError):
        File(sha256=digest)


def test_a_copy_with_updates_is_validated_and_leaves_the_original_alone():
    sample = Sample(count=1, text="a")
    changed = sample.model_copy(update={"count": 2})
    assert (changed, sample) == (Sample(count=2, text="a"), Sample(count=1, text="a"))
    with pytest.raises(ValidationError):
        sample.model_copy(update={"count": -1})


def test_a_deep_copy_shares_nothing():
    sample = Sample(table={"inner": {}})
    for duplicate in (sample.model_copy(deep=True), sample.copy(deep=True), copy.deepcopy(sample)):
        assert duplicate == sample
        assert duplicate.table["inner"] is not sample.table["inner"]


def test_the_stored_form_is_indented_utf8_with_a_final_newline():
    assert to_json(Sample(text="é")).decode().splitlines()[:3] == ["{", '  "number": 0.0,', '  "count": 0,']
    assert "é".encode() in to_json(Sample(text="é"))
    assert to_json(Sample()).endswith(b"}\n")


def test_toml_dates_become_text():
    found = {"a": [dt.date(2026, 3, 1), dt.time(12, 30)], "b": {"c": dt.datetime(2026, 3, 1, tzinfo=dt.UTC)}, "d": 1}
    wanted = {"a": ["2026-03-01", "12:30:00"], "b": {"c": "2026-03-01T00:00:00+00:00"}, "d": 1}
    assert plain(found) == wanted


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("claude-opus-5", "anthropic"),
        ("anthropic/anything", "anthropic"),
        ("gpt-5.1", "openai"),
        ("o3-mini", "openai"),
        ("openai/gpt-5", "openai"),
        ("gemini-3-pro", "google"),
        ("gemini/gemini-3-pro", "google"),
        ("google/gemini-3-pro", "google"),
        ("llama-4", None),
        ("openrouter/claude-opus-5", None),
        ("olmo-2", None),
        ("", None),
    ],
)
def test_a_name_may_say_whose_it_is(model, provider):
    assert provider_of(model) == provider


@pytest.mark.parametrize(
    ("model", "upstream", "name"),
    [
        ("anthropic/claude-x", "anthropic", "claude-x"),
        ("openai/gpt-5", "openai,concurrent=8", "gpt-5"),
        ("openai/gpt-5", "cache:answers,openai", "gpt-5"),
        ("gemini/gemini-3", "google", "gemini-3"),
        ("openai/gpt-5", "https://router/v1", "openai/gpt-5"),
        ("openai/gpt-5", "openai:https://router/v1", "openai/gpt-5"),
        ("openai/gpt-5", "anthropic", "openai/gpt-5"),
        ("meta/llama", "openai", "meta/llama"),
        ("gpt-5", "openai", "gpt-5"),
        ("openai/gpt-5", None, "openai/gpt-5"),
        (None, "openai", None),
    ],
)
def test_only_a_provider_itself_does_without_its_name(model, upstream, name):
    assert name_at(model, upstream) == name


def test_agents_get_plain_names():
    assert [plain_name(each) for each in ("openai/gpt-5", "meta/llama", "x", "openai/")] == [
        *("gpt-5", "meta/llama", "x", "openai/"),
    ]


class Flags(StrictModel):
    names: JsonObject = Field(default_factory=dict)


class Outer(StrictModel):
    inner: Flags = new(Flags)


def test_a_default_that_is_made_is_in_the_schema_and_belongs_to_its_value_alone():
    assert Outer.model_json_schema()["properties"]["inner"]["default"] == {"names": {}}
    assert Outer() == Outer(inner=Flags())
    assert Outer().inner.names is not Outer().inner.names
