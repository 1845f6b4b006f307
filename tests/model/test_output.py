"""Output formats by suffix, and what an OutputSpec says when a task says nothing."""

import dataclasses
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from seatrial.model.output import (
    DETAILS_NAMES,
    FORMAT_BY_SUFFIX,
    OUTPUT_FORMATS,
    VERIFIER_FILES,
    FileStatus,
    OutputSpec,
    RawArtifacts,
    RawFile,
    ShapeSpec,
    VerifierSpec,
    format_of,
)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/workspace/out.json", "json"),
        ("/workspace/OUT.JSON", "json"),
        ("/workspace/report.final.md", "md"),
        ("report.markdown", "md"),
        ("rows.ndjson", "jsonl"),
        ("a.yml", "yaml"),
        ("a.htm", "html"),
        ("a.text", "txt"),
        ("run.log", "txt"),
        ("book.ipynb", "ipynb"),
        ("tool.py", None),
        ("archive.tar.gz", None),
        ("Makefile", None),
        (".json", None),
        ("/workspace/data.json/", "json"),
        ("/workspace.json/answer", None),
        ("", None),
    ],
)
def test_the_suffix_says_the_format(path: str, expected: str | None):
    assert format_of(path) == expected


@pytest.mark.parametrize("name", OUTPUT_FORMATS)
def test_every_format_has_its_own_suffix(name: str):
    assert format_of(f"answer.{name}") == name


def test_no_suffix_stands_for_a_format_nobody_reads():
    assert set(FORMAT_BY_SUFFIX.values()) == set(OUTPUT_FORMATS)


def test_a_task_that_says_nothing_expects_nothing():
    spec = OutputSpec()
    assert (spec.path, spec.format, spec.source, spec.candidates) == (None, None, "none", ())
    assert spec.shape == ShapeSpec(source="none", gate="report")
    assert spec.max_bytes == 64 * 1024 * 1024


@pytest.mark.parametrize(
    "values", [{"format": "exe"}, {"source": "felt"}, {"max_bytes": 0}, {"shape": {"gate": "half"}}], ids=str
)
def test_an_output_nobody_could_check_is_refused(values: dict[str, Any]):
    with pytest.raises(ValidationError):
        OutputSpec.model_validate(values)


def test_a_verifier_need_not_have_details_but_must_have_the_rest():
    spec = VerifierSpec(script="tests/test.sh", expected_output_path="", reward_path="/logs/verifier/reward.json")
    assert spec.details_path is None
    for missing in ("script", "expected_output_path", "reward_path"):
        with pytest.raises(ValidationError, match=missing):
            VerifierSpec.model_validate(spec.model_dump(exclude={missing}))


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (RawFile("f", "ok", b"x" * 1234, 1234), "a file of 1,234 bytes"),
        (RawFile("f", "missing"), "nothing"),
        (RawFile("f", "too_large", size=10**7), "a file of 10,000,000 bytes, more than is read"),
        (RawFile("f", "directory"), "a directory"),
        (RawFile("f", "symlink"), "a symbolic link"),
        (RawFile("f", "special"), "a device, socket or pipe"),
        (RawFile("f", "unreadable", reason="Permission denied"), "a file that cannot be read (Permission denied)"),
    ],
    ids=lambda value: value.status if isinstance(value, RawFile) else "",
)
def test_a_file_describes_itself(file: RawFile, words: str):
    assert file.describe() == words


@pytest.mark.parametrize("status", get_args(FileStatus))
def test_every_status_has_words(status: FileStatus):
    assert RawFile("f", status).describe()


def test_a_file_nobody_found_is_missing():
    raw = RawArtifacts(files={"reward.json": RawFile("reward.json", "ok", b"1", 1)})
    assert raw.file("reward.json").data == b"1"
    assert raw.file("details.json") == RawFile("details.json", "missing")


def test_nothing_is_known_unless_said():
    raw = RawArtifacts()
    assert (dict(raw.files), raw.output, raw.verifier_exit_code) == ({}, None, None)


def test_what_was_found_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        RawFile("f", "missing").status = "ok"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        RawArtifacts().output = None  # type: ignore[misc]


def test_a_verifier_may_leave_five_files():
    assert VERIFIER_FILES == ("reward.json", "reward.txt", "details.json", "reward-details.json", "ctrf.json")
    assert DETAILS_NAMES[0] == "details.json"
