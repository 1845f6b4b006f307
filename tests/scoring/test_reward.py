"""Which of two reward files counts, and what is said about the other."""

import json

import pytest

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


@pytest.mark.parametrize("content", [b"{}", b'{"correctness": 1, "speed": 0.5}', b'{"status": "pass"}'])
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
    (finding,) = read_verdict(raw(reward_json=b'{"correctness": 1, "speed": 0.5}'), SPEC).findings
    assert "'correctness', 'speed'" in finding.message


def test_extra_keys_are_kept_as_found():
    content = b'{"reward": 0.5, "passed": 3, "ok": true, "why": ["a", "b"], "nested": {"x": null}}'
    verdict = read_verdict(raw(reward_json=content), SPEC)
    assert verdict.extras == {"passed": 3, "ok": True, "why": ["a", "b"], "nested": {"x": None}}
