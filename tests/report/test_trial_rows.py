"""CSV, JSON Lines and Parquet: the same rows, read back by others' readers, whatever trials are called."""

import csv
import io
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given

from seatrial.analysis.arms import COLUMNS, trial_rows
from seatrial.analysis.tables import no_formula
from seatrial.errors import UsageError
from seatrial.report.text import utf8_text
from seatrial.report.trial_rows import write_csv, write_jsonl, write_parquet
from tests.report.hostile import NASTY, arms_named, mixed_arms, names, written

NAMES = [column.name for column in COLUMNS]


def csv_rows(arms):
    return list(csv.DictReader(io.StringIO(written(write_csv, arms).decode(), newline="")))


def json_rows(arms):
    return [json.loads(line) for line in written(write_jsonl, arms).decode().split("\n")[:-1]]


def test_every_format_has_a_row_for_each_trial_with_the_same_columns():
    arms = mixed_arms()
    ids = [row[NAMES.index("trial_id")] for row in trial_rows(arms)]
    assert len(ids) == 6
    for rows in (csv_rows(arms), json_rows(arms)):
        assert [row["trial_id"] for row in rows] == ids
        assert [*rows[0]] == NAMES


def test_csv_has_numbers_as_numbers_lists_as_json_and_nothing_for_what_is_not_known():
    passed, disputed, *_, broken, _, _ = csv_rows(mixed_arms())
    assert (passed["reward"], passed["passed"], passed["tags"], passed["cost_usd"]) == ("1.0", "true", "", "")
    assert disputed["cost_usd"] == "0.25"
    assert json.loads(disputed["tags"]) == ["judge:misread", "mechanical:=units"]
    assert json.loads(disputed["dimensions"]) == {"b": 0.5, "a": 1.0}
    assert disputed["task_category"] == "'-1+1"
    assert (broken["reward"], broken["passed"], broken["scored"]) == ("", "", "false")


@given(names)
def test_no_text_of_a_stranger_is_a_formula_or_breaks_a_row(name):
    (row,) = csv_rows(arms_named(name))
    assert row["task"] in (utf8_text(name), f"'{utf8_text(name)}")
    assert not row["task"].startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
    (line,) = json_rows(arms_named(name))
    assert line["task"] == utf8_text(name)
    assert line["dimensions"] == {utf8_text(name): 0.5}


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\t", "\r", "\n", "\0"])
def test_what_begins_like_a_formula_gets_an_apostrophe(sign):
    assert no_formula(f"{sign}1") == f"'{sign}1"
    assert no_formula(f"1{sign}1") == f"1{sign}1"


def test_parquet_has_typed_columns():
    pq = pytest.importorskip("pyarrow.parquet", reason="Parquet is an extra")
    arms = mixed_arms()
    table = pq.read_table(io.BytesIO(written(write_parquet, arms)))
    assert table.column_names == NAMES
    assert [str(table.schema.field(name).type) for name in ("reward", "attempt", "passed", "started_at", "tags")] == [
        *("double", "int64", "bool", "timestamp[us, tz=UTC]", "list<element: string>")
    ]
    found = table.to_pylist()
    assert found[1]["dimensions"] == [("b", 0.5), ("a", 1.0)]
    assert found[1]["started_at"].isoformat() == "2026-05-01T12:00:00+00:00"
    assert [row["reward"] for row in found] == [row["reward"] for row in json_rows(arms)]
    nasty = pq.read_table(io.BytesIO(written(write_parquet, arms_named(NASTY)))).to_pylist()
    assert nasty[0]["task"] == utf8_text(NASTY)


def test_parquet_without_pyarrow_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r"pip install 'seatrial\[parquet\]'"):
        written(write_parquet, mixed_arms())


def test_the_same_trials_give_the_same_bytes():
    for write in (write_csv, write_jsonl):
        assert written(write, mixed_arms()) == written(write, mixed_arms())


def test_every_column_is_documented_in_its_order():
    page = (Path(__file__).parents[2] / "docs/report-formats.md").read_text()
    rows = [f"| `{column.name}` | {column.kind} | {column.meaning} |" for column in COLUMNS]
    assert "\n".join(rows) in page
