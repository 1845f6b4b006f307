"""V6 on verifiers that look at bytes, and on ones that read values."""

import csv
import io
import json
import tomllib
from typing import Any

import pytest

from seatrial.check.checks import equivalents
from tests.check.judging import Verifier, judge_with, subject_with, told

JSON = '{\n  "load": 3.0,\n  "name": "Prüfung"\n}\n'
ASKED = "Write `/workspace/result.{}` with `load`."


def reads(parse, right: Any) -> Verifier:
    """Parses an answer of any encoding that begins with a mark or not, and compares the values."""

    def judge(content: bytes) -> float:
        return float(parse(content.decode("utf-8-sig")) == right)

    return judge


@pytest.mark.parametrize(
    ("suffix", "text", "parse"),
    [
        ("json", JSON, json.loads),
        ("csv", "name,load\nbolt,3\nnut,4\n", lambda text: list(csv.DictReader(io.StringIO(text)))),
        ("toml", 'load = 3.0\n\n[[part]]\nname = "bolt"\nmass = 1\n', tomllib.loads),
    ],
)
def test_a_verifier_that_reads_values_accepts_all(tmp_path, suffix, text, parse):
    subject = subject_with(tmp_path, ASKED.format(suffix), {f"result.{suffix}": text})
    result = judge_with(equivalents, subject, result=reads(parse, parse(text)))
    assert (result.outcome.status, told(result)) == ("passed", {})
    assert len(list(equivalents.cases(subject))) >= 4


def test_one_that_compares_bytes_refuses_all(tmp_path):
    subject = subject_with(tmp_path, ASKED.format("json"), {"result.json": JSON})
    result = judge_with(equivalents, subject, result=lambda content: float(content == JSON.encode()))
    assert {name.partition(":")[0]: weight for name, weight in told(result).items()} == {
        "keys-reordered": "major", "compact": "major", "spaced": "major", "indented": "major", "whole-number": "major",
        "escapes": "minor", "byte-order-mark": "note", "last-line-end": "major", "crlf": "minor",
    }  # fmt: skip


def test_an_order_of_keys_is_found_out_alone(tmp_path):
    subject = subject_with(tmp_path, ASKED.format("json"), {"result.json": JSON})
    result = judge_with(
        equivalents, subject, result=lambda content: float(content.find(b"load") < content.find(b"name"))
    )
    assert told(result) == {"keys-reordered:/workspace/result.json": "major"}
    assert result.findings[0].message.startswith(
        "the accepted /workspace/result.json is worth 0 instead of 1 when its keys are in another order"
    )


def test_exact_bytes_may_be_asked_for(tmp_path):
    asked = f"{ASKED.format('json')} It must match the sample byte for byte."
    result = judge_with(equivalents, subject_with(tmp_path, asked, {"result.json": JSON}))
    assert result.outcome.status == "skipped"
    assert "'byte for byte'" in (result.outcome.reason or "")


def test_an_exact_format_of_data_leaves_its_spaces_free(tmp_path):
    asked = f"{ASKED.format('json')} Use exactly this format."
    subject = subject_with(tmp_path, asked, {"result.json": JSON})
    names = {case.id.rpartition("/")[2] for case in equivalents.cases(subject)}
    assert "compact" in names
    assert "keys-reordered" not in names
    assert list(equivalents.cases(subject_with(tmp_path, asked, {"result.json": "no data"}))) == []


def test_an_order_of_keys_may_be_asked_for(tmp_path):
    subject = subject_with(tmp_path, f"{ASKED.format('json')} The keys are sorted.", {"result.json": JSON})
    assert not any("keys" in case.id for case in equivalents.cases(subject))


def test_reports_keep_their_prose_and_have_a_sentence_more(tmp_path):
    report = '# Report\n\nIt holds.\n\n```json\n{"load": 3.5, "name": "bolt"}\n```\n'
    subject = subject_with(tmp_path, ASKED.format("md"), {"result.md": report})
    contents = {case.id.rpartition("/")[2]: case.edits[0].content or b"" for case in equivalents.cases(subject)}
    assert contents["prose-before"].endswith(report.encode())
    assert contents["compact"] == report.replace(": ", ":").replace(", ", ",").encode()
    assert b"\r\n" in contents["crlf"]


def test_code_is_formatted_otherwise(tmp_path):
    subject = subject_with(tmp_path, ASKED.format("py"), {"result.py": "def  load( ):\n    # why\n    return 3\n"})
    [case] = equivalents.cases(subject)
    assert case.edits[0].content == b"# Reformatted.\ndef load():\n    return 3\n"


def test_yaml_has_two_styles(tmp_path):
    subject = subject_with(tmp_path, ASKED.format("yaml"), {"result.yaml": "load: 3\nname: bolt\n"})
    contents = {case.id.rpartition("/")[2]: case.edits[0].content for case in equivalents.cases(subject)}
    assert contents["flow"] == b"{load: 3, name: bolt}\n"
    assert contents["keys-reordered"] == b"name: bolt\nload: 3\n"


def test_a_lone_word_may_end_its_line_or_not(tmp_path):
    subject = subject_with(tmp_path, ASKED.format("txt"), {"result.txt": "bolt\n"})
    result = judge_with(equivalents, subject, result=lambda content: float(content == b"bolt\n"))
    assert told(result) == {"last-line-end:/workspace/result.txt": "minor"}


def test_a_form_that_would_mean_something_else_is_not_made(tmp_path):
    text = 'name,load\n"two\nlines",3\n'
    subject = subject_with(tmp_path, ASKED.format("csv"), {"result.csv": text})
    names = {case.id.rpartition("/")[2] for case in equivalents.cases(subject)}
    assert names == {"quoted", "byte-order-mark", "last-line-end"}
