"""What a verifier claims beside its dimensions: tags with their sources, and confidence; nothing of it is believed."""

import ast
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial import verify
from seatrial.model.evaluation import RUN_CATEGORIES, ConfidenceMetadata, ErrorTag
from seatrial.model.task import Task
from seatrial.scoring.claims import MAX_TAGS, claimed_confidence, claimed_tags
from seatrial.scoring.findings import Finding
from seatrial.scoring.ingest import ingest
from seatrial.verify.integrity import SUSPICIONS
from tests.conftest import raw

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
ENTRY = st.dictionaries(st.sampled_from(["category", "description", "source"]), JSON | st.sampled_from(["human", "x"]))
FIELDS = st.sampled_from([*ConfidenceMetadata.model_fields, "other"])


def tags(declared: object) -> tuple[tuple[ErrorTag, ...], list[str]]:
    findings: list[Finding] = []
    return claimed_tags(declared, findings), [finding.message for finding in findings]


def confidence(declared: object) -> tuple[ConfidenceMetadata | None, list[str]]:
    findings: list[Finding] = []
    return claimed_confidence(declared, findings), [finding.message for finding in findings]


def test_a_verifier_names_categories_of_its_own_with_their_source():
    declared = [
        {"category": "wrong clause", "description": "cites the 2018 code", "source": "judge"},
        {"category": "style", "source": "human"},
        "arithmetic",
    ]
    found, said = tags(declared)
    assert [(tag.category, tag.description, tag.source) for tag in found] == [
        ("wrong clause", "cites the 2018 code", "judge"),
        ("style", None, "human"),
        ("arithmetic", None, "mechanical"),
    ]
    assert said == []


@pytest.mark.parametrize("source", ["robot", "HUMAN", None, 3, ["human"]])
def test_an_unknown_source_is_named_and_becomes_mechanical(source):
    found, (said,) = tags([{"category": "x", "source": source}])
    assert [tag.source for tag in found] == ["mechanical"]
    assert str(source) in said
    assert "expected mechanical, human, judge" in said


@pytest.mark.parametrize("odd", [[{}], [{"category": ""}], [{"category": 3}], [None], 7, [["x"]], [" "], ["x" * 101]])
def test_an_odd_entry_is_named_and_left_out(odd):
    found, said = tags(odd)
    assert found == ()
    assert len(said) == 1


def test_their_number_is_bounded_and_so_is_what_is_said_of_them():
    found, (said,) = tags([f"category {number}" for number in range(MAX_TAGS + 50)])
    assert len(found) == MAX_TAGS
    assert "has 150 entries; the first 100 are tags" in said
    found, complaints = tags([{}] * MAX_TAGS)
    assert (len(found), len(complaints)) == (0, 6)
    assert "has 95 more such entries" in complaints[-1]


def test_a_verifier_cannot_say_what_only_a_run_can_know():
    found, (said,) = tags([{"category": "program_changed", "description": "the agent did"}])
    assert [tag.category for tag in found] == ["verifier:program_changed"]
    assert "which only Seatrial gives" in said


def test_every_category_of_the_run_is_among_those_that_no_verifier_can_give():
    written = {
        argument.value
        for file in Path(verify.__file__ or "").parent.rglob("*.py")
        for call in ast.walk(ast.parse(file.read_text()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "_tag"
        for argument in call.args[:1]
        if isinstance(argument, ast.Constant)
    }
    assert "disputed_verdict" in written
    assert written | {suspicion.category for suspicion in SUSPICIONS} <= RUN_CATEGORIES


def test_a_verifiers_tag_neither_hides_ours_nor_says_it_again(json_task: Task):
    details = json.dumps({"error_taxonomy": [{"category": "verifier_error", "source": "human"}, "mine"]}).encode()
    evaluation = ingest(json_task, raw(details_json=details))
    assert [(tag.category, tag.source) for tag in evaluation.error_taxonomy or ()] == [
        ("verifier_error", "mechanical"),
        ("mine", "mechanical"),
    ]


def test_confidence_ends_on_the_evaluation(json_task: Task):
    declared = {"annotator_count": 3, "inter_rater_agreement": 0.8, "confidence_interval": [0.5, 1]}
    details = json.dumps({"confidence": declared}).encode()
    evaluation = ingest(json_task, raw(details_json=details, reward_json=b'{"reward": 1}'))
    assert evaluation.confidence is not None
    assert evaluation.confidence.model_dump(exclude_none=True) == {**declared, "confidence_interval": (0.5, 1.0)}
    assert not [line for line in evaluation.validity.errors if "confidence" in line]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("annotator_count", -1),
        ("annotator_count", "three"),
        ("annotator_count", True),
        ("inter_rater_agreement", 1.5),
        ("confidence_interval", [1, 0]),
        ("confidence_interval", [1]),
        ("confidence_level", 1.0),
        ("agreement_metric", 7),
        ("verifier_reward_sd", -0.1),
    ],
)
def test_an_invalid_field_is_named_and_the_others_count(field, value):
    found, (said,) = confidence({field: value, "sample_size": 4})
    assert found == ConfidenceMetadata(sample_size=4)
    assert f"`confidence.{field}` is left out" in said


def test_a_field_that_nobody_knows_is_named():
    found, (said,) = confidence({"annotator_count": 2, "mood": "good"})
    assert found == ConfidenceMetadata(annotator_count=2)
    assert "'mood'" in said


@pytest.mark.parametrize("declared", [None, 0.9, "high", [], {}, {"score": 1, "max_score": 1}])
def test_a_dimension_of_that_name_stays_one(declared):
    assert confidence(declared) == (None, [])


@given(st.lists(ENTRY | JSON, max_size=8) | JSON)
def test_whatever_the_tags_are_the_result_is_valid_and_bounded(declared):
    found, said = tags(declared)
    assert len(found) <= MAX_TAGS
    assert len(said) <= 6
    assert not {tag.category for tag in found} & RUN_CATEGORIES


@given(st.dictionaries(FIELDS, JSON | st.floats(-2, 2) | st.lists(st.floats(-2, 2), min_size=2, max_size=2)))
def test_whatever_the_confidence_is_the_result_is_valid(declared):
    found, _ = confidence(declared)
    if found is not None:
        assert ConfidenceMetadata.model_validate_json(found.model_dump_json()) == found
