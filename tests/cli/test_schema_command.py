"""`seatrial schema`: the list, one schema, a near miss, and writing all of them."""

import json
from pathlib import Path

import pytest

from seatrial.model.stored import STORED_TYPES, json_schema
from tests.cli.conftest import Seatrial


def test_without_a_type_all_names_are_listed(seatrial: Seatrial):
    shown = seatrial("schema")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.splitlines() == list(STORED_TYPES)
    assert "EvaluationResult" in shown.out


@pytest.mark.parametrize("name", STORED_TYPES)
def test_a_type_is_printed_as_its_schema(seatrial: Seatrial, name: str):
    shown = seatrial("schema", name)
    assert (shown.code, shown.out) == (0, json_schema(name))
    assert json.loads(shown.out)["title"] == name


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("EvaluationResults", "EvaluationResult"), ("Anotation", "Annotation"), ("trialRecord", "TrialRecord")],
)
def test_a_near_miss_is_told_what_was_meant(seatrial: Seatrial, typed: str, meant: str):
    shown = seatrial("schema", typed)
    assert (shown.code, shown.out) == (2, "")
    assert shown.err.endswith(f"did you mean {meant}?\n")


def test_a_far_miss_is_told_what_there_is(seatrial: Seatrial):
    shown = seatrial("schema", "zzz")
    assert shown.code == 2
    assert "did you mean" not in shown.err
    assert ", ".join(STORED_TYPES) in shown.err


def test_all_schemas_are_written_into_a_folder(seatrial: Seatrial, tmp_path: Path):
    folder = tmp_path / "docs" / "schema"
    for _ in range(2):  # a second time over the first
        shown = seatrial("schema", "--write", folder)
        assert (shown.code, shown.err) == (0, "")
    assert {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()} == {
        f"{name}.json": json_schema(name) for name in STORED_TYPES
    }


@pytest.mark.parametrize("where", ["file", "file/below", "/proc/nowhere"])
def test_a_place_that_cannot_be_written_is_a_usage_error(seatrial: Seatrial, tmp_path: Path, where: str):
    (tmp_path / "file").touch()
    shown = seatrial("schema", "--write", tmp_path / where)
    assert shown.code == 2
    assert shown.err.startswith("Error: ")
    assert str(tmp_path / where) in shown.err
