"""V7 on verifiers that find the right answer wherever it is, and on ones that read one value."""

import csv
import io
import json

import pytest

from seatrial.check.checks import shotgun
from seatrial.verifier_kit import OutputProblem, json_blocks, last_json_block
from tests.check.judging import Verifier, judge_with, subject_with, told

ASKED = "Write `/workspace/result.{}` with `load` and `name` (`bolt` or `nut`)."
RIGHT = {"load": 12.5, "name": "bolt"}
REPORT = f"# Report\n\nIt holds.\n\n```json\n{json.dumps(RIGHT)}\n```\n"
ANYWHERE = {"several-blocks", "right-in-prose", "right-in-comment", "every-value", "every-number"}
DOCUMENTS = {"several-documents", "right-in-comment", "repeated-keys"}
ROWS = "name,load\nbolt,12.5\nnut,13.5\n"


def found(result) -> set[str]:
    return {name.partition(":")[0] for name in told(result)}


def last_block(content: bytes) -> float:
    try:
        return float(last_json_block(content.decode()) == RIGHT)
    except OutputProblem:
        return 0.0


def any_block(content: bytes) -> float:
    return float(any(json.loads(block.body) == RIGHT for block in json_blocks(content.decode())))


def one_document(content: bytes) -> float:
    try:
        return float(json.loads(content) == RIGHT)
    except ValueError:
        return 0.0


def looks_for(text: bytes) -> Verifier:
    return lambda content: float(text in content)


def last_rows(content: bytes) -> float:
    rows = {row["name"]: row["load"] for row in csv.DictReader(io.StringIO(content.decode()))}
    return float(rows == {"bolt": "12.5", "nut": "13.5"})


@pytest.mark.parametrize(
    ("name", "text", "verifier", "accepted"),
    [
        ("result.md", REPORT, last_block, set()),
        ("result.md", REPORT, any_block, {"several-blocks"}),
        ("result.md", REPORT, looks_for(b"12.5"), ANYWHERE),
        ("result.json", json.dumps(RIGHT), one_document, set()),
        ("result.json", json.dumps(RIGHT), looks_for(b'"load": 12.5'), DOCUMENTS),
        ("result.csv", ROWS, last_rows, set()),
        ("result.csv", ROWS, lambda content: float(set(ROWS.split()) <= set(content.decode().split())), {"every-row"}),
        ("result.txt", "12.5\n", lambda content: float(content.strip() == b"12.5"), set()),
        ("result.txt", "12.5\n", lambda content: float(b"12.5" in content.split()), {"every-line", "every-word"}),
    ],
)  # fmt: skip
def test_what_finds_the_answer_anywhere_is_found_out(tmp_path, name, text, verifier, accepted):
    subject = subject_with(tmp_path, ASKED.format(name.partition(".")[2]), {name: text})
    result = judge_with(shotgun, subject, result=verifier)
    assert found(result) == accepted
    assert result.outcome.status == ("failed" if accepted else "passed")


def test_a_list_of_values_is_not_a_value(tmp_path):
    subject = subject_with(tmp_path, ASKED.format("json"), {"result.json": '{"load": 12.5}'})

    def judge(content: bytes) -> float:
        try:
            answer = json.loads(content)["load"]
        except ValueError:
            return 0.0
        return float(12.5 in (answer if isinstance(answer, list) else [answer]))

    assert found(judge_with(shotgun, subject, result=judge)) == {"every-number"}


def test_where_wrong_answers_pass_there_is_nothing_to_learn(tmp_path):
    subject = subject_with(tmp_path, ASKED.format("json"), {"result.json": json.dumps(RIGHT)})
    result = judge_with(shotgun, subject, result=lambda _: 1.0)
    assert (result.outcome.status, result.findings) == ("skipped", ())


def test_code_names_no_possibilities(tmp_path):
    result = judge_with(shotgun, subject_with(tmp_path, ASKED.format("py"), {"result.py": "load = 3\n"}))
    assert result.outcome.status == "skipped"
