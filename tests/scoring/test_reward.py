"""Which of two reward files counts, and what is said about the other."""

import ast
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial import verify
from seatrial.model.evaluation import RUN_CATEGORIES, ConfidenceMetadata, ErrorTag
from seatrial.model.loaded_task import Task
from seatrial.model.output import RawArtifacts, RawFile, VerifierSpec
from seatrial.scoring.ingest import ingest
from seatrial.scoring.reward import MAX_TAGS, claimed_confidence, claimed_tags, read_details, read_verdict, reward_order
from seatrial.scoring.text import Finding
from seatrial.verify.integrity import SUSPICIONS
from tests.conftest import raw

SPEC = VerifierSpec(script="tests/test.sh", expected_output_path="", reward_path="/logs/verifier/reward.json")


def test_the_declared_file_decides_for_jobs():
    verdict = read_verdict(raw(reward_json=b'{"reward": 0.7}', reward_txt=b"0.2"), SPEC)
    assert (verdict.value, verdict.file) == (0.7, "reward.json")


def test_the_text_file_decides_for_harbor_env():
    verdict = read_verdict(raw(reward_json=b'{"reward": 0.7}', reward_txt=b"0.2"), SPEC, "text_first")
    assert (verdict.value, verdict.file) == (0.2, "reward.txt")


@pytest.mark.parametrize("policy", ["declared", "text_first"])
def test_the_only_file_counts_whatever_the_policy(policy):
    assert read_verdict(raw(reward_json=b'{"reward": 0.7}'), SPEC, policy).file == "reward.json"
    assert read_verdict(raw(reward_txt=b"0.2"), SPEC, policy).file == "reward.txt"


def test_a_declared_file_of_another_name_comes_first():
    spec = SPEC.model_copy(update={"reward_path": "/logs/verifier/verdict.json"})
    assert reward_order(spec) == ("verdict.json", "reward.json", "reward.txt")
    assert read_verdict(raw(verdict_json=b'{"reward": 0.3}', reward_json=b'{"reward": 0.7}'), spec).value == 0.3


def test_a_declared_text_file_comes_before_json():
    spec = SPEC.model_copy(update={"reward_path": "/logs/verifier/reward.txt"})
    assert read_verdict(raw(reward_json=b'{"reward": 0.7}', reward_txt=b"0.2"), spec).value == 0.2


def test_different_values_are_a_conflict_that_names_both():
    (finding,) = read_verdict(raw(reward_json=b'{"reward": 0.7}', reward_txt=b"0.2"), SPEC).findings
    assert finding.code == "reward_conflict"
    assert finding.message == "reward.json says 0.7, reward.txt says 0.2; reward.json counts"


def test_equal_values_are_no_conflict():
    assert read_verdict(raw(reward_json=b'{"reward": 0.5}', reward_txt=b"0.50\n"), SPEC).findings == ()


@pytest.mark.parametrize("content", [b"{}", b'{"passed": 7, "speed": 0.5}', b'{"status": "pass"}'])
def test_a_file_that_is_no_reward_file_gives_way_and_keeps_its_keys(content):
    verdict = read_verdict(raw(reward_json=content, reward_txt=b"0.4"), SPEC)
    assert (verdict.value, verdict.file) == (0.4, "reward.txt")
    assert [finding.kind for finding in verdict.findings] == ["note"]
    assert verdict.extras == json.loads(content)


def test_an_invalid_reward_does_not_give_way():
    verdict = read_verdict(raw(reward_json=b'{"reward": 1.5}', reward_txt=b"0.4"), SPEC)
    assert (verdict.value, verdict.file) == (None, "reward.json")
    assert [finding.code for finding in verdict.findings] == ["reward_invalid", "note"]
    assert "reward.txt beside it says 0.4" in verdict.findings[1].message


def test_an_invalid_file_beside_the_deciding_one_is_noted():
    verdict = read_verdict(raw(reward_json=b'{"reward": 0.5}', reward_txt=b"oops"), SPEC)
    assert verdict.value == 0.5
    assert verdict.findings[0].kind == "note"
    assert "oops" in verdict.findings[0].message


def test_without_any_reward_the_keys_found_are_named():
    (finding,) = read_verdict(raw(reward_json=b'{"passed": 7, "speed": 0.5}'), SPEC).findings
    assert "'passed', 'speed'" in finding.message


def test_only_the_first_of_very_many_keys_are_named():
    content = json.dumps({f"k{n}": 2 for n in range(1000)}).encode()
    (finding,) = read_verdict(raw(reward_json=content), SPEC).findings
    assert "'k19' and 980 more" in finding.message


def test_the_mean_of_several_numbers_counts_and_names_them():
    verdict = read_verdict(raw(reward_json=b'{"correctness": 1, "speed": 0.5, "ok": true}'), SPEC)
    assert (verdict.value, verdict.file) == (0.75, "reward.json")
    assert [finding.line() for finding in verdict.findings] == [
        "note: reward.json has no `reward`; the mean 0.75 of 'correctness', 'speed' counts"
    ]
    assert verdict.extras == {"correctness": 1, "speed": 0.5, "ok": True}


@pytest.mark.parametrize("policy", ["declared", "text_first"])
def test_a_mean_gives_way_to_a_reward_that_is_stated(policy):
    verdict = read_verdict(raw(reward_json=b'{"correctness": 1, "speed": 0.5}', reward_txt=b"0.4"), SPEC, policy)
    assert (verdict.value, verdict.file, [finding.kind for finding in verdict.findings]) == (
        *(0.4, "reward.txt"),
        ["note"],
    )


def test_a_mean_does_not_give_way_to_garbage():
    verdict = read_verdict(raw(reward_json=b'{"correctness": 1, "speed": 0.5}', reward_txt=b"oops"), SPEC)
    assert verdict.value == 0.75


@given(st.dictionaries(st.text(min_size=1).filter(lambda key: key != "reward"), st.floats(0, 1), min_size=2))
def test_a_mean_is_a_reward_between_the_least_and_the_greatest(numbers):
    verdict = read_verdict(raw(reward_json=json.dumps(numbers).encode()), SPEC)
    assert verdict.value is not None
    assert 0.0 <= verdict.value <= 1.0
    assert min(numbers.values()) * 0.999 <= verdict.value <= max(numbers.values()) * 1.001


@pytest.mark.parametrize("policy", ["declared", "text_first"])
@pytest.mark.parametrize("empty", [b"", b" \n"])
def test_an_empty_file_gives_way_to_a_valid_one(policy, empty):
    for files, name in (
        ({"reward_json": b'{"reward": 0.7}', "reward_txt": empty}, "reward.json"),
        ({"reward_json": empty, "reward_txt": b"0.7"}, "reward.txt"),
    ):
        verdict = read_verdict(raw(**files), SPEC, policy)
        assert (verdict.value, verdict.file, verdict.silent) == (0.7, name, False)
        assert [finding.kind for finding in verdict.findings] == ["note"]
        assert "is empty" in verdict.findings[0].message


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"reward_txt": b""},
        {"reward_txt": b"", "reward_json": b" "},
        {"reward_txt": b"-1"},
        {"reward_txt": b"93"},
        {"reward_txt": b"nan"},
        {"reward_json": b'{"passed": 3, "failed": 4}'},
    ],
)
def test_a_verifier_without_a_reward_is_silent_whatever_it_wrote(files):
    """An agent may bring about any of these, so none of them is another way out of the mean."""
    verdict = read_verdict(raw(**files), SPEC)
    assert (verdict.value, verdict.silent) == (None, True)


@pytest.mark.parametrize(("code", "value"), [(0, 1.0), (1, 0.0), (127, 0.0), (-9, 0.0)])
def test_the_exit_status_is_the_verdict_where_that_was_agreed(code, value):
    artifacts = RawArtifacts(verifier_exit_code=code)
    verdict = read_verdict(artifacts, SPEC, source="exit_status")
    assert (verdict.value, verdict.file, verdict.silent) == (value, None, False)
    assert f"exit status {code} is the verdict" in verdict.findings[0].message
    assert read_verdict(artifacts, SPEC).value is None


@pytest.mark.parametrize(
    "artifacts",
    [
        RawArtifacts(verifier_exit_code=0, verifier_timed_out=True),
        RawArtifacts(verifier_exit_code=None),
        RawArtifacts(raw(reward_txt=b"").files, verifier_exit_code=0),
        RawArtifacts(raw(reward_txt=b"-1").files, verifier_exit_code=0),
    ],
)
def test_no_exit_status_stands_for_a_verifier_that_was_stopped_or_wrote_a_file(artifacts):
    assert read_verdict(artifacts, SPEC, source="exit_status").value is None


def test_a_reward_file_wins_over_the_exit_status():
    artifacts = RawArtifacts(raw(reward_txt=b"0.5").files, verifier_exit_code=0)
    assert read_verdict(artifacts, SPEC, source="exit_status").value == 0.5


def test_extra_keys_are_kept_as_found():
    content = b'{"reward": 0.5, "passed": 3, "ok": true, "why": ["a", "b"], "nested": {"x": null}}'
    verdict = read_verdict(raw(reward_json=content), SPEC)
    assert verdict.extras == {"passed": 3, "ok": True, "why": ["a", "b"], "nested": {"x": None}}


DETAILS_SPEC = VerifierSpec(
    script="tests/test.sh",
    expected_output_path="",
    reward_path="/logs/verifier/reward.json",
    details_path="/logs/verifier/details.json",
)
DETAILS = {"drop_v": {"score": 0.95, "max_score": 1.0, "evidence": "within 2 %"}}


def read(extras=None, **files):
    return read_details(raw(**files), DETAILS_SPEC, extras or {})


def test_details_are_the_breakdown_as_found():
    details = read(details_json=json.dumps(DETAILS).encode())
    assert (details.breakdown, details.file, details.findings) == (DETAILS, "details.json", ())


def test_the_older_name_is_read_and_named():
    details = read(reward_details_json=json.dumps(DETAILS).encode())
    assert (details.breakdown, details.file) == (DETAILS, "reward-details.json")
    assert details.findings[0].message == "details were read from reward-details.json"


def test_details_json_comes_before_the_older_name():
    details = read(details_json=b'{"a": 1}', reward_details_json=b'{"b": 2}')
    assert details.breakdown == {"a": 1}


def test_nothing_at_all_is_no_breakdown():
    assert read().breakdown is None


def test_extra_reward_keys_join_the_breakdown():
    details = read({"passed": 3}, details_json=json.dumps(DETAILS).encode())
    assert details.breakdown == {**DETAILS, "passed": 3}


def test_an_extra_key_that_collides_is_kept_beside():
    details = read({"a": 2, "b": 3}, details_json=b'{"a": 1, "b": 3}')
    assert details.breakdown == {"a": 1, "b": 3, "reward.a": 2}


def test_a_list_is_kept_under_a_name():
    details = read(details_json=b'[{"score": 1}]')
    assert details.breakdown == {"details": [{"score": 1}]}
    assert details.findings[0].kind == "note"


@pytest.mark.parametrize("content", [b"{", b"{'a': 1}", b'{"a": NaN}', b'{"a": 1, "a": 2}', b"\xff\xfe{}", b""])
def test_unreadable_details_are_a_fault_that_leaves_no_breakdown(content):
    details = read(details_json=content)
    assert details.breakdown is None
    assert [finding.code for finding in details.findings] == ["details_invalid"]


def test_details_that_were_too_large_to_read_say_so():
    artifacts = RawArtifacts({"details.json": RawFile("details.json", "too_large", size=10**9)})
    (finding,) = read_details(artifacts, DETAILS_SPEC, {}).findings
    assert "1,000,000,000 bytes" in finding.message


def test_what_a_verifier_claims_stays_in_the_breakdown_too():
    told = {"error_taxonomy": ["arithmetic"], "confidence": {"sample_size": 3}}
    details = read(details_json=json.dumps(told).encode())
    assert details.breakdown == told
    assert [tag.category for tag in details.tags] == ["arithmetic"]
    assert details.confidence is not None
    assert details.confidence.sample_size == 3


def test_a_test_report_is_summed_up():
    tests = [{"name": "a", "status": "passed"}, {"name": "b", "status": "failed", "message": "1 != 2", "duration": 3}]
    report = {"results": {"summary": {"tests": 2, "passed": 1}, "tests": tests}}
    details = read(details_json=b'{"a": 1}', ctrf_json=json.dumps(report).encode())
    assert details.breakdown == {
        "a": 1,
        "ctrf": {
            "summary": {"tests": 2, "passed": 1},
            "not_passed": [{"name": "b", "status": "failed", "message": "1 != 2"}],
        },
    }


def test_a_report_that_is_no_report_is_kept_as_found():
    assert read(ctrf_json=b'{"something": "else"}').breakdown == {"ctrf": {"something": "else"}}


def test_a_report_does_not_overwrite_a_detail_of_its_name():
    details = read(details_json=b'{"ctrf": 1}', ctrf_json=b'{"a": 2}')
    assert details.breakdown == {"ctrf": 1, "ctrf.json": {"a": 2}}


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
    (spelled,), _ = tags([{"category": " Program  Changed"}])
    assert spelled.category == "verifier: Program  Changed"


def test_every_category_of_the_run_is_among_those_that_no_verifier_can_give():
    written = {
        argument.value
        for file in Path(verify.__file__ or "").parent.rglob("*.py")
        for call in ast.walk(ast.parse(file.read_text()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "make_tag"
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


def test_a_verifier_cannot_speak_for_judges():
    found, said = confidence({"annotator_count": 2, "judges": ["gpt-9"], "judge_agreement": 1.0})
    assert found == ConfidenceMetadata(annotator_count=2)
    assert len(said) == 2


def test_a_verifier_cannot_speak_for_people():
    found, (said,) = confidence({"annotator_count": 2, "claimed": {"annotator_count": 9}})
    assert found == ConfidenceMetadata(annotator_count=2)
    assert "'claimed'" in said


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
