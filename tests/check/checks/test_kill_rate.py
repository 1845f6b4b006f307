"""V5 on verifiers with one weakness each, and on sound ones."""

import json
from dataclasses import replace
from typing import Any

import pytest

from seatrial.check.checks import kill_rate
from tests.check.judging import Verifier, judge_with, subject_with, told

INSTRUCTION = """
Write `/workspace/result.json` with `load_kn`, `utilisation`, `governing` (`"stress"` or `"deflection"`), `safe` and
`parts`, a list sorted by `name`, each with a `name` (`"bolt"`, `"nut"`, `"pin"`) and its `mass_kg`.
"""
RIGHT: dict[str, Any] = {
    "load_kn": 12.5,
    "utilisation": 0.82,
    "governing": "stress",
    "safe": True,
    "parts": [{"name": name, "mass_kg": mass} for name, mass in (("bolt", 1.5), ("nut", 2.5), ("pin", 3.5))],
    "comment": "checked by hand",
}


def near(found: Any, right: float, tolerance: float = 0.01) -> bool:
    return type(found) in (int, float) and abs(found - right) <= tolerance * right


def verifier(**weak: Any) -> Verifier:
    """Compares every field; `weak` has other comparisons by field, each of the whole answer."""
    sound = {
        "load_kn": lambda answer: near(answer["load_kn"], 12.5),
        "utilisation": lambda answer: near(answer["utilisation"], 0.82),
        "governing": lambda answer: answer["governing"] == "stress",
        "safe": lambda answer: answer["safe"] is True,
        "parts": lambda answer: answer["parts"] == RIGHT["parts"],
    }

    def judge(content: bytes) -> float:
        try:
            answer = json.loads(content)
            return sum(bool(check(answer)) for check in {**sound, **weak}.values()) / len(sound)
        except (ValueError, LookupError, TypeError):
            return 0.0

    return judge


@pytest.fixture
def subject(tmp_path):
    return subject_with(tmp_path, INSTRUCTION, {"result.json": json.dumps(RIGHT)})


def test_a_sound_verifier_kills_all(subject):
    result = judge_with(kill_rate, subject, result=verifier())
    assert (result.outcome.status, told(result)) == ("passed", {})
    assert result.outcome.figures["kill_rate"] == 1.0
    assert result.outcome.figures["mutants"] == len(list(kill_rate.cases(subject))) > 30


@pytest.mark.parametrize(
    ("weak", "found"),
    [
        ({"load_kn": lambda _: True}, {"any-value-accepted:load_kn": "major"}),
        ({"load_kn": lambda answer: "load_kn" in answer}, {"any-value-accepted:load_kn": "major"}),
        ({"load_kn": lambda answer: near(answer["load_kn"], 12.5, 0.3)}, {"wide-tolerance:load_kn": "minor"}),
        ({"load_kn": lambda answer: near(answer["load_kn"], 12.5, 0.6)}, {"wide-tolerance:load_kn": "major"}),
        ({"load_kn": lambda answer: near(abs(answer["load_kn"]), 12.5)}, {"wrong-value-accepted:load_kn": "minor"}),
        ({"load_kn": lambda answer: near(answer.get("load_kn", 12.5), 12.5)}, {"may-be-missing:load_kn": "major"}),
        (
            {"load_kn": lambda answer: not abs(answer["load_kn"] - 12.5) > 0.1},
            {"not-a-number-accepted:load_kn": "major"},
        ),
        (
            {"governing": lambda answer: answer["governing"] in ("stress", "deflection")},
            {"wrong-value-accepted:governing": "major"},
        ),
        ({"safe": lambda answer: isinstance(answer["safe"], bool)}, {"any-value-accepted:safe": "major"}),
        (
            {"parts": lambda answer: [part for part in RIGHT["parts"] if part not in answer["parts"]] == []},
            {"any-order-accepted:parts": "minor"},
        ),
        (
            {"parts": lambda answer: [part["name"] for part in answer["parts"]] == ["bolt", "nut", "pin"]},
            {"any-value-accepted:parts[].mass_kg": "major"},
        ),
        (
            {"parts": lambda answer: answer["parts"][:2] == RIGHT["parts"][:2]},
            {
                "entry-may-be-missing:parts": "note",
                "some-entries-unchecked:parts[].name": "minor",
                "some-entries-unchecked:parts[].mass_kg": "minor",
            },
        ),
    ],
)
def test_each_weakness_is_named(subject, weak, found):
    assert told(judge_with(kill_rate, subject, result=verifier(**weak))) == found


def test_a_finding_says_what_was_accepted_and_how_to_see_it(subject):
    [finding] = judge_with(kill_rate, subject, result=verifier(load_kn=lambda _: True)).findings
    assert finding.message == (
        "any value of `load_kn` is accepted, and it may be missing: `load_kn` is 125.0 instead of 12.5; "
        "`load_kn` is -12.5 instead of 12.5"
    )
    assert finding.reproduce == "seatrial check tasks/task --case V5/result.json/load_kn/far"
    assert finding.case in {case.id for case in kill_rate.cases(subject)}


def test_a_field_that_the_instruction_never_names_matters_less(tmp_path):
    subject = subject_with(
        tmp_path, "Write `/workspace/result.json` with `a`.", {"result.json": '{"a": 5.5, "b": 6.5}'}
    )
    result = judge_with(kill_rate, subject, result=lambda content: float(b'"a": 5.5' in content))
    assert told(result)["any-value-accepted:b"] == "minor"


@pytest.mark.parametrize(
    ("toml", "word", "weight"),
    [
        ('[output]\npath = "/workspace/result.json"\n', b"", "critical"),
        ("", b"utilisation", "critical"),
        ("", b"", "major"),
    ],
)
def test_an_answer_that_nobody_compares_is_one_finding(tmp_path, toml, word, weight):
    subject = subject_with(tmp_path, INSTRUCTION, {"result.json": json.dumps(RIGHT)}, toml=toml)
    result = judge_with(kill_rate, subject, result=lambda content: float(word in content))
    assert told(result) == {"answer-not-checked:/workspace/result.json": weight}


@pytest.mark.parametrize(("word", "weight"), [("Scoring rebuilds it.", "note"), ("", "major")])
def test_a_file_that_the_verifier_makes_anew_is_not_what_it_judges(tmp_path, word, weight):
    subject = subject_with(tmp_path, f"{INSTRUCTION}{word}", {"result.json": json.dumps(RIGHT)})
    subject = replace(subject, tests={"test_outputs.py": b"import subprocess\n"})
    result = judge_with(kill_rate, subject, result=lambda _: 1.0)
    assert told(result) == {"answer-not-checked:/workspace/result.json": weight}


def test_where_another_file_counts_one_that_does_not_is_a_note(tmp_path):
    instruction = f"{INSTRUCTION}\nWrite also `/workspace/extra.json` with `size` and `mass` in it."
    answers = {"extra.json": '{"size": 2.5, "mass": 3.5}', "result.json": json.dumps(RIGHT)}
    subject = subject_with(tmp_path, instruction, answers)
    assert told(judge_with(kill_rate, subject, result=verifier())) == {
        "answer-not-checked:/workspace/extra.json": "note"
    }


def test_files_that_nobody_asked_for_are_left_alone(tmp_path):
    subject = subject_with(tmp_path, "Write `/workspace/result.json`.", {"scratch.json": '{"a": 5.5}'})
    assert list(kill_rate.cases(subject)) == []
    assert judge_with(kill_rate, subject).outcome.status == "skipped"


def test_mutants_tell_nothing_where_the_way_of_writing_decides(tmp_path):
    text = '{"load":  12.50}'
    subject = subject_with(tmp_path, "Write `/workspace/result.json` with `load`.", {"result.json": text})
    result = judge_with(kill_rate, subject, result=lambda content: float(content == text.encode()))
    assert (result.outcome.status, result.findings) == ("skipped", ())


CODE = """
def size(data):
    return len(data) + 2


def check(data):
    return size(data) <= 252


def main():
    print(check(b""))
"""


def test_code_that_no_test_calls_is_named(tmp_path):
    asked = "Write `/workspace/frame.py` with `size` and `check`; at most 252 bytes."
    subject = subject_with(tmp_path, asked, {"frame.py": CODE})
    result = judge_with(kill_rate, subject, frame=lambda content: float(b"len(data) + 2" in content))
    assert told(result) == {"function-not-tested:check": "major", "function-not-tested:main": "note"}


def test_programs_that_are_not_run_again_are_only_noted(tmp_path):
    subject = subject_with(tmp_path, "Write `/workspace/frame.py` with `size`.", {"frame.py": CODE})
    assert told(judge_with(kill_rate, subject)) == {"answer-not-checked:/workspace/frame.py": "note"}


def test_without_an_accepted_answer_there_is_nothing_to_do(tmp_path):
    result = judge_with(kill_rate, subject_with(tmp_path, INSTRUCTION, {}))
    assert (result.outcome.status, result.outcome.tried) == ("skipped", 0)
    assert "no file of an accepted answer" in (result.outcome.reason or "")


def test_cases_that_were_not_tried_say_nothing(subject):
    result = kill_rate.findings(subject, {})
    assert (result.outcome.status, result.findings, result.outcome.figures["mutants"]) == ("not_run", (), 0)


def test_a_way_of_writing_that_was_not_tried_was_not_refused(tmp_path):
    subject = subject_with(tmp_path, "Write `/workspace/result.json` with `load`.", {"result.json": '{"load":  12.50}'})
    assert kill_rate.findings(subject, {}).outcome.status == "not_run"
