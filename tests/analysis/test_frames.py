"""Trials as a DataFrame: a row for each, columns and kinds that never change, and a word where there is no pandas."""

import datetime as dt
import sys

import pytest

from seatrial.analysis.columns import COLUMNS
from seatrial.analysis.loaded import load_job
from seatrial.errors import UsageError
from seatrial.model.annotation import Annotation, Judgment
from tests.cli.job_folders import BEGUN, BROKEN, full_record, make_job, record

ANNOTATED = ["annotated_pass", "annotated_fail", "annotated_categories"]


def test_a_row_for_each_trial(tmp_path):
    pytest.importorskip("pandas")
    store = make_job(tmp_path / "job", full_record("a"), record("b", BROKEN), record("c", 1.0, "noop"))
    said = Annotation(reviewer_id="ada", timestamp=BEGUN, judgment=Judgment.FAIL, categories=["unit"])
    store.annotate("a.oracle.1", said)
    frame = load_job(tmp_path / "job").to_pandas()
    assert [*frame.columns] == [column.name for column in COLUMNS]
    rows = frame.set_index("trial_id")
    assert {*rows.index} == {"a.oracle.1", "b.oracle.1", "c.noop.1"}
    assert rows.loc["a.oracle.1", "reward"] == 0.5
    assert rows.loc["a.oracle.1", ANNOTATED].tolist() == [0, 1, ("unit",)]
    assert rows.loc["a.oracle.1", "started_at"] == BEGUN
    assert rows["started_at"].dt.tz is dt.UTC
    assert rows["reward"].isna().tolist() == [trial == "b.oracle.1" for trial in rows.index]


def test_the_kinds_of_columns_do_not_depend_on_what_is_in_them(tmp_path):
    pytest.importorskip("pandas")
    make_job(tmp_path / "full", full_record("a"), record("b", BROKEN))
    make_job(tmp_path / "empty", missing_tasks=1)
    full, empty = (load_job(tmp_path / name).to_pandas() for name in ("full", "empty"))
    assert len(empty) == 0
    assert full.dtypes.to_dict() == empty.dtypes.to_dict()


def test_without_pandas_it_says_how_to_get_it(tmp_path, monkeypatch):
    make_job(tmp_path / "job", record("a", 1.0))
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match=r"pip install 'seatrial\[pandas\]'"):
        load_job(tmp_path / "job").to_pandas()
