"""V9: what hostile files are, and what is said of verifiers that they get the better of."""

import json

import pytest

from seatrial.check.cases import CaseVerdict
from seatrial.check.checks import hostile
from seatrial.check.variants import DEPTH, HUGE_BYTES
from tests.check.judging import judge_with, subject_with, told, verdict

ASKED = "Write `/workspace/result.json` with `load`."


@pytest.fixture
def subject(tmp_path):
    answers = {"result.json": '{"load": 12.5, "count": 3, "safe": true}'}
    return subject_with(tmp_path, ASKED, answers, toml="[verifier]\ntimeout_sec = 30.0\n")


def names(subject) -> dict[str, str]:
    return {case.id.rpartition("/")[2]: case.id for case in hostile.cases(subject)}


def judged(subject, **others: CaseVerdict) -> dict[str, CaseVerdict]:
    """Verdicts of a verifier that gives 0 for every one of them, but some."""
    ids = names(subject)
    sound = {case: verdict(case, 1.0 if name == "odd-names" else 0.0) for name, case in ids.items()}
    return sound | {ids[name.replace("_", "-")]: one for name, one in others.items()}


def test_all_kinds_are_tried_and_the_slow_ones_last(subject):
    cases = list(hostile.cases(subject))
    assert set(names(subject)) == {
        "binary", "not-utf8", "unreadable", "folder", "dangling-link", "deep-nesting", "infinite", "many-digits",
        "odd-names", "huge", "pipe",
    }  # fmt: skip
    assert min(cases, key=lambda case: case.worth).id.endswith("pipe")
    assert sum(len(edit.content or b"") for case in cases for edit in case.edits) < 2**20


def test_numbers_grow_without_bounds_and_only_they(subject):
    contents = {case.id.rpartition("/")[2]: case.edits[0].content or b"" for case in hostile.cases(subject)}
    assert json.loads(contents["infinite"]) == {"load": float("inf"), "count": float("inf"), "safe": True}
    assert contents["many-digits"].count(b"9") == 10_000
    assert contents["deep-nesting"].count(b"[") == DEPTH


def test_large_files_are_made_where_they_are_needed(subject):
    [edit] = next(case for case in hostile.cases(subject) if case.id.endswith("huge")).edits
    assert (edit.content, edit.odd and edit.odd.argument) == (None, str(HUGE_BYTES))


def test_verifiers_that_give_nothing_for_them_pass(subject):
    result = hostile.findings(subject, judged(subject))
    assert (result.outcome.status, result.outcome.figures) == ("passed", {"files": 11})


@pytest.mark.parametrize(
    ("others", "found"),
    [
        ({"infinite": verdict("", 1.0)}, {"rewarded": "major"}),
        ({"infinite": verdict("", 1.0), "folder": verdict("", 1.0)}, {"rewarded": "critical"}),
        ({"huge": verdict("", 0.0, completed=False, timed_out=True)}, {"no-end": "major"}),
        ({"pipe": verdict("", 0.0, completed=False, timed_out=True)}, {"no-end": "note"}),
        ({"not_utf8": verdict("", 0.0, completed=False)}, {"no-verdict": "minor"}),
        ({"odd_names": verdict("", 0.0, completed=False)}, {"no-verdict": "note"}),
        ({"odd_names": verdict("", 0.0)}, {}),
        ({"folder": CaseVerdict("", None, failure="no room")}, {}),
    ],
)
def test_each_trouble_is_named(subject, others, found):
    assert told(hostile.findings(subject, judged(subject, **others))) == found


def test_what_went_wrong_alike_is_one_finding(subject):
    silent = verdict("", 0.0, completed=False)
    [finding] = hostile.findings(subject, judged(subject, folder=silent, binary=silent)).findings
    assert finding.message.endswith("when /workspace/result.json is binary data; or it is a folder")
    assert finding.case == "V9/result.json/binary"


def test_a_pipe_is_not_tried_where_it_would_take_all_the_time(tmp_path):
    answers = {"result.json": '{"load": 12.5}'}
    subject = subject_with(tmp_path, ASKED, answers, toml="[verifier]\ntimeout_sec = 900.0\n")
    assert "pipe" not in names(subject)


def test_a_file_that_nobody_reads_is_not_the_business_of_this_check(subject):
    result = judge_with(hostile, subject)
    assert (result.outcome.status, result.findings) == ("skipped", ())


def test_without_an_answer_nothing_is_tried(tmp_path):
    assert judge_with(hostile, subject_with(tmp_path, ASKED, {})).outcome.status == "skipped"
