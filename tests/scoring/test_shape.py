"""The shape of an output: a JSON Schema, required keys, the instruction's example, or nothing asked for."""

import pytest

from seatrial.model.output import ShapeSpec
from seatrial.scoring.formats import Parsed
from seatrial.scoring.formats.parsed import keys_of
from seatrial.scoring.shape import check_shape

SCHEMA = {"type": "object", "required": ["a"], "properties": {"a": {"type": "number", "minimum": 0}}}


def check(value, **shape):
    return check_shape(Parsed(value, keys_of(value)), ShapeSpec(**shape))


def test_nothing_asked_for_fits_everything():
    assert check([1, 2]) == []


@pytest.mark.parametrize("source", ["required_keys", "example"])
def test_each_missing_key_is_a_finding_of_its_own(source):
    findings = check({"a": 1}, source=source, required_keys=("a", "b", "c"))
    assert [finding.code for finding in findings] == ["schema_mismatch"] * 2
    assert ["'b'" in findings[0].message, "'c'" in findings[1].message] == [True, True]


def test_a_key_must_be_in_every_object_of_a_list():
    assert check([{"a": 1}, {"a": 2, "b": 3}], source="required_keys", required_keys=("a",)) == []
    assert len(check([{"a": 1}, {"b": 3}], source="required_keys", required_keys=("a",))) == 1


@pytest.mark.parametrize(
    ("value", "said"), [([1], "a list without objects"), ("text", "text"), (3, "a int"), ([], "list")]
)
def test_a_value_without_keys_is_named(value, said):
    (finding,) = check(value, source="required_keys", required_keys=("a",))
    assert said in finding.message
    assert "'a'" in finding.message


def test_a_schema_that_fits():
    assert check({"a": 1}, source="schema", json_schema=SCHEMA) == []


def test_a_schema_fault_names_the_place():
    (finding,) = check({"a": -1}, source="schema", json_schema=SCHEMA)
    assert finding.code == "schema_mismatch"
    assert finding.message.startswith("$.a: ")


def test_no_more_than_ten_faults_are_listed():
    schema = {"type": "array", "items": {"type": "string"}}
    assert len(check(list(range(50)), source="schema", json_schema=schema)) == 10


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "no such type"},
        {"$ref": "#/definitions/missing"},
        {"$ref": "https://127.0.0.1:9/never-fetched.json"},
        {"required": "a"},
        {"$schema": ["x"]},
        {"pattern": "("},
    ],
)
def test_a_schema_that_cannot_be_used_is_the_task_s_fault_not_the_agent_s(schema):
    findings = check({"a": 1}, source="schema", json_schema=schema)
    assert [finding.kind for finding in findings] == ["note"]
    assert "cannot be used" in findings[0].message
