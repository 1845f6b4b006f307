"""What becomes of details.json, extra reward keys, and a CTRF report."""

import json

import pytest

from seatrial.model.artifacts import RawArtifacts, RawFile
from seatrial.model.output import VerifierSpec
from seatrial.scoring.details import read_details
from tests.conftest import raw

SPEC = VerifierSpec(
    script="tests/test.sh",
    expected_output_path="",
    reward_path="/logs/verifier/reward.json",
    details_path="/logs/verifier/details.json",
)
DETAILS = {"drop_v": {"score": 0.95, "max_score": 1.0, "evidence": "within 2 %"}}


def read(extras=None, **files):
    return read_details(raw(**files), SPEC, extras or {})


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
    (finding,) = read_details(artifacts, SPEC, {}).findings
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
