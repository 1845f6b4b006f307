"""The whole way from raw artifacts to a result: the rules between the parts, and that nothing ever raises."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.model.evaluation import EvaluationResult, ValidityCheck
from seatrial.model.loaded_task import TaskLayout, TaskStep
from seatrial.model.output import (
    OUTPUT_FORMATS,
    VERIFIER_FILES,
    OutputSpec,
    RawArtifacts,
    RawFile,
    ShapeSpec,
    VerifierSpec,
)
from seatrial.model.record import outcome_of
from seatrial.model.task import StepSpec
from seatrial.scoring.formats import Parsed, keys_of
from seatrial.scoring.ingest import check_output, check_shape, classify, ingest
from tests.conftest import raw

GOOD = b'{"reward": 0.7}'


def judged(**output):
    """The least that can be judged: a step with a declared JSON output."""
    spec = OutputSpec(**{"path": "/workspace/out.json", "format": "json", "source": "declared", **output})
    verifier = VerifierSpec(script="t", expected_output_path=spec.path or "", reward_path="/logs/verifier/reward.json")
    return TaskStep(spec=StepSpec(name="s"), layout=TaskLayout(), verifier=verifier, output=spec)


def tags(result):
    return [tag.category for tag in result.error_taxonomy or ()]


def test_a_clean_pass_has_nothing_to_explain(json_task):
    result = ingest(json_task, raw(b'{"a": 1}', reward_json=b'{"reward": 1.0}'))
    assert result == EvaluationResult(
        reward=1.0,
        validity=ValidityCheck(output_parseable=True, schema_valid=True, verifier_completed=True),
    )


def test_the_reward_is_not_computed_again_from_the_details():
    details = json.dumps({"x": {"score": 0.0, "max_score": 1.0}}).encode()
    result = ingest(judged(), raw(b"{}", reward_json=GOOD, details_json=details))
    assert result.reward == 0.7
    assert result.breakdown == {"x": {"score": 0.0, "max_score": 1.0}}


@pytest.mark.parametrize(
    ("output", "tag", "outcome"),
    [
        (RawFile("out.json", "missing"), "no_output", "no_output"),
        (RawFile("out.json", "ok", b"{", 1), "unparseable", "invalid_output"),
    ],
)
def test_a_reward_for_an_unusable_output_is_taken_back_and_kept_as_evidence(output, tag, outcome):
    artifacts = RawArtifacts({"reward.json": RawFile("reward.json", "ok", GOOD, len(GOOD))}, output)
    result = ingest(judged(), artifacts)
    assert (result.reward, result.validity.output_parseable, outcome_of(result)) == (0.0, False, outcome)
    assert tags(result) == [tag, "reward_gated"]
    assert "the verifier gave 0.7" in result.validity.errors[1]


def test_a_zero_for_an_unusable_output_needs_no_taking_back():
    result = ingest(judged(), raw(b"{", reward_json=b'{"reward": 0}'))
    assert tags(result) == ["unparseable"]


@pytest.mark.parametrize(("gate", "reward"), [("report", 0.7), ("zero", 0.0)])
def test_a_wrong_shape_costs_the_reward_only_where_the_task_says_so(gate, reward):
    shape = ShapeSpec(source="required_keys", required_keys=("a",), gate=gate)
    result = ingest(judged(shape=shape), raw(b"{}", reward_json=GOOD))
    assert (result.reward, result.validity.schema_valid, result.validity.output_parseable) == (reward, False, True)


def test_a_guessed_path_never_costs_the_reward():
    result = ingest(judged(source="guessed"), raw(b"{", reward_json=GOOD))
    assert (result.reward, tags(result)) == (0.7, [])


MISSING = RawFile("out.json", "missing")
BROKEN = RawFile("out.json", "ok", b"{", 1)
FOLDER = RawFile("out.json", "directory")
WITHOUT_KEY = RawFile("out.json", "ok", b"{}", 2)
GOOD_OUTPUT = RawFile("out.json", "ok", b'{"a": 1}', 8)


@pytest.mark.parametrize("source", ["declared", "inferred", "guessed"])
@pytest.mark.parametrize("output", [MISSING, RawFile("out.json", "ok", b"{}", 2)])
def test_a_silent_verifier_has_no_verdict_whatever_the_agent_left(source, output):
    result = ingest(judged(source=source), RawArtifacts(output=output))
    assert (outcome_of(result), result.validity.verifier_completed) == ("verifier_error", False)


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (("declared", GOOD_OUTPUT, 1.0), (1.0, "YYY", [], "pass")),
        (("declared", GOOD_OUTPUT, 0.5), (0.5, "YYY", [], "partial")),
        (("declared", GOOD_OUTPUT, 0.0), (0.0, "YYY", [], "fail")),
        (("declared", GOOD_OUTPUT, None), (0.0, "YYn", ["verifier_error"], "verifier_error")),
        (("declared", MISSING, 1.0), (0.0, "nnY", ["no_output", "reward_gated"], "no_output")),
        (("declared", MISSING, 0.0), (0.0, "nnY", ["no_output"], "no_output")),
        (("declared", MISSING, None), (0.0, "nnn", ["no_output", "verifier_error"], "verifier_error")),
        (("declared", BROKEN, 0.5), (0.0, "nnY", ["unparseable", "reward_gated"], "invalid_output")),
        (("declared", BROKEN, 0.0), (0.0, "nnY", ["unparseable"], "invalid_output")),
        (("declared", WITHOUT_KEY, 1.0), (1.0, "YnY", ["schema_mismatch"], "pass")),
        (("declared", WITHOUT_KEY, 0.0), (0.0, "YnY", ["schema_mismatch"], "fail")),
        (("inferred", GOOD_OUTPUT, 1.0), (1.0, "YYY", [], "pass")),
        (("inferred", GOOD_OUTPUT, 0.0), (0.0, "YYY", [], "fail")),
        (("inferred", MISSING, 1.0), (1.0, "YYY", ["note"], "pass")),
        (("inferred", MISSING, 0.5), (0.5, "YYY", ["note"], "partial")),
        (("inferred", MISSING, 0.0), (0.0, "nnY", ["output_missing"], "no_output")),
        (("inferred", MISSING, None), (0.0, "nnn", ["output_missing", "verifier_error"], "verifier_error")),
        (("inferred", BROKEN, 1.0), (1.0, "YYY", ["note"], "pass")),
        (("inferred", BROKEN, 0.0), (0.0, "nnY", ["output_unparseable"], "invalid_output")),
        (("inferred", FOLDER, 0.0), (0.0, "nnY", ["output_unparseable"], "invalid_output")),
        (("inferred", WITHOUT_KEY, 1.0), (1.0, "YnY", ["schema_mismatch"], "pass")),
        (("inferred", WITHOUT_KEY, 0.0), (0.0, "YnY", ["schema_mismatch"], "fail")),
        (("guessed", MISSING, 1.0), (1.0, "YYY", ["note"], "pass")),
        (("guessed", MISSING, 0.0), (0.0, "YYY", ["note"], "fail")),
        (("guessed", MISSING, None), (0.0, "YYn", ["note", "verifier_error"], "verifier_error")),
        (("guessed", BROKEN, 0.0), (0.0, "YYY", ["note"], "fail")),
        (("guessed", WITHOUT_KEY, 1.0), (1.0, "YYY", ["note"], "pass")),
        (("guessed", WITHOUT_KEY, 0.0), (0.0, "YYY", ["note"], "fail")),
        (("declared", None, 0.0), (0.0, "YYY", ["note"], "fail")),
        (("inferred", None, 1.0), (1.0, "YYY", ["note"], "pass")),
    ],
)
@pytest.mark.parametrize("claim", [None, "no_output", "output_missing", "unparseable", "output_unparseable"])
def test_flags_tags_and_outcome_agree(case, expected, claim):
    """Flags are those of the output, its shape and the verifier. A verifier's own tag of that kind changes nothing."""
    source, output, given = case
    claimed = json.dumps({"error_taxonomy": [claim]} if claim else {}).encode()
    said = {} if given is None else {"reward_json": json.dumps({"reward": given}).encode()}
    shape = ShapeSpec(source="example", required_keys=("a",))
    files = raw(details_json=claimed, **said).files
    result = ingest(judged(source=source, shape=shape), RawArtifacts(files, output))
    validity = result.validity
    marks = (validity.output_parseable, validity.schema_valid, validity.verifier_completed)
    flags = "".join("Y" if mark else "n" for mark in marks)
    codes = [line.partition(": ")[0] for line in validity.errors if "`error_taxonomy`" not in line]
    assert (result.reward, flags, codes, outcome_of(result)) == expected
    ours = [code for code in codes if code != "note"]
    assert tags(result)[: len(ours)] == ours
    assert len(tags(result)) <= len(ours) + bool(claim)


@pytest.mark.parametrize(
    ("source", "output", "outcome"),
    [
        ("declared", MISSING, "no_output"),
        ("declared", BROKEN, "invalid_output"),
        ("inferred", MISSING, "no_output"),
        ("inferred", BROKEN, "invalid_output"),
        ("guessed", MISSING, "fail"),
        ("inferred", GOOD_OUTPUT, "fail"),
    ],
)
def test_the_zero_of_a_verifier_that_was_silenced_is_explained_in_the_same_way(source, output, outcome):
    result = ingest(judged(source=source), RawArtifacts(output=output))
    assert outcome_of(result, baseline="judged") == outcome


@pytest.mark.parametrize(("source", "reward"), [("declared", 0.0), ("inferred", 0.0), ("guessed", 0.7)])
def test_a_gate_that_the_author_asks_for_closes_on_what_the_instruction_asks_for(source, reward):
    shape = ShapeSpec(source="required_keys", required_keys=("a",), gate="zero")
    assert ingest(judged(shape=shape, source=source), raw(b"{}", reward_json=GOOD)).reward == reward


def test_a_gate_on_the_shape_does_not_close_where_there_is_nothing_of_any_shape():
    shape = ShapeSpec(source="required_keys", required_keys=("a",), gate="zero")
    artifacts = RawArtifacts(raw(reward_json=GOOD).files, MISSING)
    assert ingest(judged(shape=shape, source="inferred"), artifacts).reward == 0.7


def test_our_tags_come_first_and_are_not_said_twice():
    details = {
        "error_taxonomy": [{"category": "no_output", "description": "kit"}, {"category": "own"}],
        "x": {"score": 0, "expected": 1, "actual": -1},
    }
    artifacts = raw(reward_json=b'{"reward": 0}', details_json=json.dumps(details).encode())
    result = ingest(judged(), RawArtifacts(artifacts.files, RawFile("out.json", "missing")))
    assert tags(result) == ["no_output", "sign_error", "own"]


def test_both_policies_reach_the_files():
    artifacts = raw(b"{}", reward_json=b'{"reward": 0.7}', reward_txt=b"0.2")
    assert ingest(judged(), artifacts).reward == 0.7
    assert ingest(judged(), artifacts, "text_first").reward == 0.2


SCRAPS = st.sampled_from(
    [b"{", b"}", b"[", b"]", b'"reward"', b":", b",", b"0.5", b"1", b"-1", b"NaN", b"true", b"\xff", b"\n"]
)
CONTENT = st.binary(max_size=200) | st.lists(SCRAPS, max_size=12).map(b"".join)
STATUS = st.sampled_from(["ok", "missing", "too_large", "directory", "symlink", "special", "unreadable"])


@st.composite
def files(draw, name):
    status = draw(STATUS)
    data = draw(CONTENT) if status == "ok" else b""
    return RawFile(name, status, data, len(data) if status == "ok" else draw(st.integers(0, 2**40)))


ARTIFACTS = st.builds(
    RawArtifacts,
    files=st.fixed_dictionaries({}, optional={name: files(name) for name in VERIFIER_FILES}),
    output=st.none() | files("/workspace/out"),
    verifier_exit_code=st.none() | st.integers(-64, 255),
)
SPECS = st.builds(
    lambda name, source, block: judged(
        path=f"/workspace/out.{name}", format=name, source=source, ends_in_json_block=block
    ),
    st.sampled_from(OUTPUT_FORMATS),
    st.sampled_from(["declared", "inferred", "guessed"]),
    st.booleans(),
)


@given(step=SPECS, artifacts=ARTIFACTS, policy=st.sampled_from(["declared", "text_first"]))
def test_no_content_makes_it_raise_and_every_result_can_be_stored(step, artifacts, policy):
    result = ingest(step, artifacts, policy)
    stored = result.model_dump_json()
    assert EvaluationResult.model_validate_json(stored).model_dump_json() == stored
    assert result.validity.verifier_completed or result.reward == 0.0
    assert result.validity.verifier_completed or result.error_taxonomy


@given(artifacts=ARTIFACTS)
def test_the_same_artifacts_give_the_same_result(artifacts):
    assert ingest(judged(), artifacts) == ingest(judged(), artifacts)


DECLARED = OutputSpec(path="/workspace/out.json", format="json", source="declared")
GUESSED = DECLARED.model_copy(update={"source": "guessed"})


def found(data):
    return RawFile("/workspace/out.json", "ok", data, len(data))


def codes(check):
    return [finding.code for finding in check.findings]


def test_a_good_output_leaves_nothing_to_say():
    check = check_output(DECLARED, found(b"{}"))
    assert (check.parseable, check.schema_valid, check.findings) == (True, True, ())


def test_without_a_path_there_is_nothing_to_parse():
    check = check_output(OutputSpec(), None)
    assert (check.parseable, check.schema_valid, codes(check)) == (True, True, ["note"])


def test_an_output_nobody_collected_counts_against_no_one():
    check = check_output(DECLARED, None)
    assert (check.parseable, codes(check)) == (True, ["note"])


def test_a_missing_output_is_no_output():
    check = check_output(DECLARED, RawFile("out.json", "missing"))
    assert (check.parseable, check.schema_valid, codes(check)) == (False, False, ["no_output"])
    assert "/workspace/out.json does not exist" in check.findings[0].message


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (RawFile("out.json", "directory"), "a directory"),
        (RawFile("out.json", "symlink"), "a symbolic link"),
        (RawFile("out.json", "special"), "device, socket or pipe"),
        (RawFile("out.json", "unreadable", reason="Permission denied"), "Permission denied"),
        (RawFile("out.json", "too_large", size=10**9), "1,000,000,000 bytes"),
    ],
)
def test_what_is_no_readable_file_is_unparseable(file, said):
    check = check_output(DECLARED, file)
    assert (check.parseable, codes(check)) == (False, ["unparseable"])
    assert said in check.findings[0].message


def test_a_fault_names_path_format_and_place():
    (finding,) = check_output(DECLARED, found(b'{"a": }')).findings
    assert finding.message.startswith("/workspace/out.json is not json: not JSON: ")
    assert finding.message.endswith("(line 1, column 7)")


def test_the_size_limit_is_the_task_s_own():
    small = DECLARED.model_copy(update={"max_bytes": 4})
    assert check_output(small, found(b"[ 1]")).parseable
    assert codes(check_output(small, found(b"[ 12]"))) == ["unparseable"]


@pytest.mark.parametrize("file", [RawFile("out.json", "missing"), found(b"{"), RawFile("out.json", "directory")])
def test_a_guessed_path_costs_nobody_anything(file):
    check = check_output(GUESSED, file)
    assert (check.parseable, check.schema_valid, codes(check)) == (True, True, ["note"])
    assert "only a guess" in check.findings[0].message


@pytest.mark.parametrize("status", ["ok", "directory", "too_large"])
def test_a_path_of_no_known_format_needs_only_to_exist(status):
    tree = OutputSpec(path="/workspace/release", source="inferred")
    assert check_output(tree, RawFile("release", status)).parseable
    assert codes(check_output(tree, RawFile("release", "missing"))) == ["output_missing"]


def test_a_wrong_shape_leaves_the_output_parseable():
    spec = DECLARED.model_copy(update={"shape": ShapeSpec(source="required_keys", required_keys=("a", "b"))})
    check = check_output(spec, found(b'{"a": 1}'))
    assert (check.parseable, check.schema_valid, codes(check)) == (True, False, ["schema_mismatch"])
    assert "'b' is missing" in check.findings[0].message


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


def entry(expected, actual, score=0.0, **more):
    return {"x": {"score": score, "max_score": 1.0, "expected": expected, "actual": actual, **more}}


@pytest.mark.parametrize(
    ("expected", "actual", "said"),
    [
        (9.4, 9400.0, "10^3"),
        (9.4, 0.0094, "10^3"),
        (2.0, 20.05, "10^1"),
        (1.0, 25.4, "inches and millimetres"),
        (254.0, 10.0, "inches and millimetres"),
        (10.0, 3.048, "feet and metres"),
        (10.0, 36.0, "m/s and km/h"),
        (1.0, 57.2958, "degrees and radians"),
        (100, 45.36, "pounds and kilograms"),
        (2.0, 7200, "hours and seconds"),
    ],
)
def test_a_ratio_of_units_is_a_unit_mismatch(expected, actual, said):
    (finding,) = classify(entry(expected, actual))
    assert finding.code == "unit_mismatch"
    assert said in finding.message


def test_the_opposite_number_is_a_sign_error():
    (finding,) = classify(entry(3.2, -3.2))
    assert (finding.code, finding.message) == ("sign_error", "'x': found -3.2, expected 3.2")


@pytest.mark.parametrize(("expected", "actual"), [(2.0, 3.0), (2.0, 10.0), (0, 5), (5, 0), (1, -1000)])
def test_any_other_wrong_number_is_just_wrong(expected, actual):
    assert classify(entry(expected, actual)) == []


def test_a_dimension_with_the_full_score_is_left_alone():
    assert classify(entry(1.0, 1000.0, score=1.0)) == []
    assert classify({"x": {"score": 5, "max_score": 5, "expected": 1.0, "actual": 1000.0}}) == []


def test_other_names_for_the_two_numbers_are_understood():
    (finding,) = classify({"x": {"score": 0, "reference": 1, "got": 1000}})
    assert finding.code == "unit_mismatch"


@pytest.mark.parametrize(
    "odd",
    [
        None,
        {},
        {"x": 3},
        {"x": {}},
        entry("1", 1000),
        entry(True, 1000),
        entry(None, 1),
        entry(10**400, 1),
        entry(1e-300, 1e299),
        entry(1, [1000]),
        {"x": {"expected": 1, "actual": 1000, "score": "none", "max_score": []}},
    ],
)
def test_odd_breakdowns_raise_nothing(odd):
    classify(odd)
