"""Every stored type: its fields, its JSON Schema, the published copy of it, and round trips through JSON."""

import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from pydantic import BaseModel, ValidationError

from seatrial.model.base import to_json
from seatrial.model.evaluation import ErrorSource, ErrorTag
from seatrial.model.loaded_task import Problem
from seatrial.model.stored import STORED_TYPES, json_schema
from tests.conftest import REPOSITORY
from tests.model import strategies
from tests.model.samples import annotation, evaluation, full_samples, record, validity

SAMPLES = full_samples()
PUBLISHED = REPOSITORY / "docs" / "schema"

# The names the scoring specification uses; readers in other languages rely on them.
SPECIFIED_FIELDS = {
    "VerifierSpec": {"script", "expected_output_path", "reward_path", "details_path"},
    "ValidityCheck": {"output_parseable", "schema_valid", "verifier_completed", "errors"},
    "EvaluationResult": {"reward", "validity", "breakdown", "error_taxonomy", "confidence", "annotations"},
    "ErrorTag": {"category", "description", "source"},
    "Annotation": {"reviewer_id", "reviewer_discipline", "timestamp", "judgment", "categories", "notes"},
}


def validator(name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(
        json.loads(json_schema(name)), format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    )


def assert_survives(value: BaseModel) -> None:
    """Dump → load → dump gives an equal value and the same bytes, in both layouts."""
    again = type(value).model_validate_json(to_json(value))
    assert again == value
    assert to_json(again) == to_json(value)
    assert again.model_dump_json() == value.model_dump_json()


def test_every_stored_type_has_a_sample():
    assert set(SAMPLES) == set(STORED_TYPES)


@pytest.mark.parametrize("name", SPECIFIED_FIELDS)
def test_the_specified_fields_are_there_and_no_others(name: str):
    assert set(STORED_TYPES[name].model_fields) == SPECIFIED_FIELDS[name]


@pytest.mark.parametrize("name", STORED_TYPES)
def test_a_sample_survives_a_round_trip(name: str):
    assert_survives(SAMPLES[name])


@pytest.mark.parametrize("name", STORED_TYPES)
def test_the_schema_is_a_valid_schema_and_describes_what_is_stored(name: str):
    jsonschema.Draft202012Validator.check_schema(json.loads(json_schema(name)))
    validator(name).validate(json.loads(to_json(SAMPLES[name])))


@pytest.mark.parametrize("name", STORED_TYPES)
def test_the_schema_refuses_unknown_and_missing_fields(name: str):
    document: dict[str, Any] = json.loads(to_json(SAMPLES[name]))
    assert not validator(name).is_valid({**document, "colour": "red"})
    for field, info in STORED_TYPES[name].model_fields.items():
        if info.is_required():
            assert not validator(name).is_valid({key: document[key] for key in document if key != field})


def test_the_schema_knows_the_bounds_of_a_reward():
    document = json.loads(to_json(SAMPLES["EvaluationResult"]))
    for reward in (-0.1, 1.1, "1", None):
        assert not validator("EvaluationResult").is_valid({**document, "reward": reward})


@pytest.mark.parametrize("name", STORED_TYPES)
def test_the_published_schema_is_up_to_date(name: str):
    assert (PUBLISHED / f"{name}.json").read_text(encoding="utf-8") == json_schema(name), "run `make schemas`"


def test_no_other_schema_is_published():
    assert {path.name for path in PUBLISHED.iterdir()} == {f"{name}.json" for name in STORED_TYPES}


def test_there_is_no_schema_of_an_unknown_type():
    with pytest.raises(KeyError):
        json_schema("RubricResult")


@pytest.mark.parametrize(
    "make",
    [
        lambda text: annotation(notes=text),
        lambda text: annotation(categories=[text]),
        lambda text: validity(errors=[text]),
        lambda text: ErrorTag(category="a", description=text, source=ErrorSource.HUMAN),
        lambda text: evaluation(breakdown={"a": [text]}),
        lambda text: record(trial_id=text),
        lambda text: Problem(code="a", severity="note", message=text, file="f"),
    ],
    ids=["notes", "categories", "errors", "description", "breakdown", "trial_id", "message"],
)
def test_text_that_cannot_be_stored_is_refused(make: Callable[[str], BaseModel]):
    """Half a surrogate pair has no UTF-8 form: better no value than one that fails when it is written."""
    assert_survives(make("whole: 😀"))
    with pytest.raises(ValidationError):
        make("half: \ud83d")


@given(strategies.annotations)
def test_any_annotation_survives(value: BaseModel):
    assert_survives(value)


@given(strategies.confidences)
def test_any_confidence_survives(value: BaseModel):
    assert_survives(value)


@given(strategies.evaluations())
def test_any_evaluation_survives_and_meets_its_schema(value: BaseModel):
    assert_survives(value)
    validator("EvaluationResult").validate(json.loads(to_json(value)))


@given(strategies.records())
def test_any_record_survives(value: BaseModel):
    assert_survives(value)


@given(strategies.numbers)
def test_a_number_is_stored_to_the_last_bit_and_the_sign_of_zero(number: float):
    stored = evaluation(breakdown={"number": number})
    assert json.loads(to_json(stored))["breakdown"]["number"].hex() == number.hex()
