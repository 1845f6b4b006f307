"""Every odd thing a verifier may leave in place of a reward, and what becomes of it.

Each row: what stands in reward.json (or reward.txt), the reward that counts, and the tag that explains a zero.
"""

import pytest

from seatrial.model.output import RawArtifacts, RawFile
from seatrial.model.record import outcome_of
from seatrial.scoring.ingest import ingest
from tests.conftest import raw

UTF16 = '{"reward": 0.9}'.encode("utf-16")
DEEP = b'{"reward": ' + b"[" * 5000 + b"]" * 5000 + b"}"

IN_JSON = {
    # the good ones
    "plain": (b'{"reward": 0.93}', 0.93, None),
    "integer one": (b'{"reward": 1}', 1.0, None),
    "zero": (b'{"reward": 0}', 0.0, None),
    "minus zero": (b'{"reward": -0.0}', 0.0, None),
    "exponent": (b'{"reward": 5e-1}', 0.5, None),
    "tiny": (b'{"reward": 1e-320}', 1e-320, None),
    "byte order mark": (b'\xef\xbb\xbf{"reward": 0.5}', 0.5, None),
    "Windows line ends": (b'{\r\n  "reward": 0.5\r\n}\r\n', 0.5, None),
    "more keys": (b'{"reward": 0.5, "passed": 3, "ok": true, "why": "x"}', 0.5, None),
    "one number under another name": (b'{"score": 0.25, "status": "pass"}', 0.25, None),
    "a bare number": (b"0.75", 0.75, None),
    "several numbers": (b'{"correctness": 1, "speed": 0.5}', 0.75, None),
    "several numbers beside other things": (b'{"a": 0.5, "b": 0.1, "ok": true, "why": "x", "c": null}', 0.3, None),
    "several zeros": (b'{"a": 0, "b": -0.0}', 0.0, None),
    "several ones": (b'{"a": 1.0, "b": 1.0, "c": 1.0}', 1.0, None),
    # not a number
    "true": (b'{"reward": true}', 0.0, "reward_invalid"),
    "false": (b'{"reward": false}', 0.0, "reward_invalid"),
    "number as text": (b'{"reward": "0.9"}', 0.0, "reward_invalid"),
    "null": (b'{"reward": null}', 0.0, "reward_invalid"),
    "list": (b'{"reward": [0.9]}', 0.0, "reward_invalid"),
    "nested object": (b'{"reward": {"value": 0.9}}', 0.0, "reward_invalid"),
    "NaN": (b'{"reward": NaN}', 0.0, "reward_invalid"),
    "Infinity": (b'{"reward": Infinity}', 0.0, "reward_invalid"),
    "overflowing number": (b'{"reward": 1e999}', 0.0, "reward_invalid"),
    # out of range
    "above one": (b'{"reward": 1.5}', 0.0, "reward_invalid"),
    "just above one": (b'{"reward": 1.0000000000000002}', 0.0, "reward_invalid"),
    "percentage": (b'{"reward": 93}', 0.0, "reward_invalid"),
    "negative": (b'{"reward": -0.1}', 0.0, "reward_invalid"),
    "a huge integer": (b'{"reward": ' + b"9" * 300 + b"}", 0.0, "reward_invalid"),
    # sentinels: the verifier could not judge
    "minus one": (b'{"reward": -1}', 0.0, "verifier_error"),
    "minus one as float": (b'{"reward": -1.0}', 0.0, "verifier_error"),
    "empty": (b"", 0.0, "verifier_error"),
    "only blanks": (b" \r\n\t", 0.0, "verifier_error"),
    "only a byte order mark": (b"\xef\xbb\xbf", 0.0, "verifier_error"),
    # not a reward file
    "empty object": (b"{}", 0.0, "reward_invalid"),
    "several numbers, one above one": (b'{"correctness": 1, "passed": 3}', 0.0, "reward_invalid"),
    "several numbers, one negative": (b'{"correctness": 1, "delta": -0.5}', 0.0, "reward_invalid"),
    "several numbers, one of them -1": (b'{"correctness": -1, "speed": 1}', 0.0, "reward_invalid"),
    "several booleans": (b'{"correct": true, "fast": false}', 0.0, "reward_invalid"),
    "no number": (b'{"status": "pass"}', 0.0, "reward_invalid"),
    # not JSON at all
    "empty list": (b"[]", 0.0, "reward_invalid"),
    "bare true": (b"true", 0.0, "reward_invalid"),
    "bare null": (b"null", 0.0, "reward_invalid"),
    "bare text": (b'"0.9"', 0.0, "reward_invalid"),
    "duplicate keys": (b'{"reward": 0.1, "reward": 0.9}', 0.0, "reward_invalid"),
    "cut short": (b'{"reward": 0.', 0.0, "reward_invalid"),
    "two documents": (b'{"reward": 1}{"reward": 1}', 0.0, "reward_invalid"),
    "UTF-16": (UTF16, 0.0, "reward_invalid"),
    "not UTF-8": (b'{"reward": 0.5, "x": "\xff"}', 0.0, "reward_invalid"),
    "unpaired surrogate": (b'{"reward": 0.5, "x": "\\ud800"}', 0.0, "reward_invalid"),
    "deeply nested": (DEEP, 0.0, "reward_invalid"),
    "binary": (bytes(range(256)), 0.0, "reward_invalid"),
}

IN_TEXT = {
    "one": (b"1", 1.0, None),
    "one with newline": (b"1\n", 1.0, None),
    "many digits": (b"0.987060041408", 0.987060041408, None),
    "no leading zero": (b".5", 0.5, None),
    "no decimals": (b"1.", 1.0, None),
    "plus sign and blanks": (b"  +0.5\r\n", 0.5, None),
    "byte order mark": (b"\xef\xbb\xbf0.5", 0.5, None),
    "minus one": (b"-1\n", 0.0, "verifier_error"),
    "empty": (b"", 0.0, "verifier_error"),
    "word": (b"pass", 0.0, "reward_invalid"),
    "nan": (b"nan", 0.0, "reward_invalid"),
    "inf": (b"inf", 0.0, "reward_invalid"),
    "overflow": (b"1e999", 0.0, "reward_invalid"),
    "above one": (b"1.5", 0.0, "reward_invalid"),
    "decimal comma": (b"0,5", 0.0, "reward_invalid"),
    "underscore": (b"0_1", 0.0, "reward_invalid"),
    "hexadecimal": (b"0x1", 0.0, "reward_invalid"),
    "two numbers": (b"0.5\n0.7\n", 0.0, "reward_invalid"),
    "JSON in the text file": (b'{"reward": 0.5}', 0.0, "reward_invalid"),
    "other digits": ("\u0660".encode(), 0.0, "reward_invalid"),
    "UTF-16": ("0.5".encode("utf-16"), 0.0, "reward_invalid"),
    "NUL": (b"1\x00", 0.0, "reward_invalid"),
}

NOT_READ = {
    "100 MB": RawFile("reward.json", "too_large", size=100_000_000),
    "just over a megabyte": RawFile("reward.json", "ok", b" " * 2**20 + b"1", 2**20 + 1),
    "a directory": RawFile("reward.json", "directory"),
    "a symbolic link": RawFile("reward.json", "symlink"),
    "a pipe": RawFile("reward.json", "special"),
    "unreadable": RawFile("reward.json", "unreadable", reason="Permission denied"),
}


def check(result, reward, tag):
    assert result.reward == reward
    assert str(result.reward) == str(reward)  # 0.0 and -0.0 compare equal
    assert result.validity.verifier_completed is (tag is None)
    assert [t.category for t in result.error_taxonomy or ()] == ([tag] if tag else [])
    assert outcome_of(result) == "verifier_error" or tag is None


@pytest.mark.parametrize(("content", "reward", "tag"), IN_JSON.values(), ids=IN_JSON)
def test_reward_json(json_task, content, reward, tag):
    check(ingest(json_task, raw(b"{}", reward_json=content)), reward, tag)


@pytest.mark.parametrize(("content", "reward", "tag"), IN_TEXT.values(), ids=IN_TEXT)
def test_reward_txt(json_task, content, reward, tag):
    check(ingest(json_task, raw(b"{}", reward_txt=content)), reward, tag)


@pytest.mark.parametrize("file", NOT_READ.values(), ids=NOT_READ)
def test_what_is_not_a_readable_file(json_task, file):
    artifacts = RawArtifacts(files={"reward.json": file}, output=RawFile("out.json", "ok", b"{}", 2))
    check(ingest(json_task, artifacts), 0.0, "reward_invalid")


def test_an_error_names_the_file_what_was_found_and_what_was_expected(json_task):
    result = ingest(json_task, raw(b"{}", reward_json=b'{"reward": "0.9"}'))
    assert result.validity.errors == [
        "reward_invalid: reward.json: found the text '0.9'; expected a number from 0 to 1"
    ]


def test_no_reward_file_is_a_verifier_error_with_the_exit_code(json_task):
    artifacts = RawArtifacts(output=RawFile("out.json", "ok", b"{}", 2), verifier_exit_code=127)
    result = ingest(json_task, artifacts)
    check(result, 0.0, "verifier_error")
    assert "exited with 127" in result.validity.errors[0]


def test_a_non_zero_exit_beside_a_reward_is_scored(json_task):
    artifacts = raw(b"{}", reward_json=b'{"reward": 0.5}')
    result = ingest(json_task, RawArtifacts(artifacts.files, artifacts.output, verifier_exit_code=1))
    assert (result.reward, result.validity.verifier_completed) == (0.5, True)
