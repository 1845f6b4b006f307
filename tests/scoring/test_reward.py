"""Which of two reward files counts, and what is said about the other."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.model.artifacts import RawArtifacts
from seatrial.model.output import VerifierSpec
from seatrial.scoring.reward import read_verdict, reward_order
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
