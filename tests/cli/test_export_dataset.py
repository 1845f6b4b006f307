"""`seatrial export --format hf`: a dataset folder as a whole, with or without pyarrow."""

import json
import sys

import pytest

from seatrial.gateway.calls import CallLog
from seatrial.model.record import ModelUsage
from seatrial.report.dataset_rows import COLUMNS
from tests.cli.conftest import Seatrial
from tests.cli.job_folders import BROKEN, make_job, record
from tests.trajectories.samples import Anthropic, Chat, whole_trial


@pytest.fixture
def job(tmp_path):
    """Trials: two with calls, one without, and one that could not be run."""
    usage = ModelUsage(calls=2, input_tokens=7, output_tokens=3)
    records = [record("a", 1.0, model_usage=usage), record("b", 0.25), record("c", 1.0), record("d", BROKEN)]
    store = make_job(tmp_path / "job", *records)
    for name, trial in (("a.oracle.1", whole_trial(Anthropic())), ("b.oracle.1", whole_trial(Chat()))):
        with CallLog(store.trial_folder(name)) as log:
            for each in trial.calls:
                log.write(each)
    return tmp_path / "job"


@pytest.fixture
def without_pyarrow(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)


def lines(folder):
    return [json.loads(line) for line in (folder / "data/train-00000.jsonl").read_text().splitlines()]


@pytest.mark.usefixtures("without_pyarrow")
def test_rows_with_every_column(seatrial: Seatrial, job, tmp_path):
    shown = seatrial("export", job, "--format", "hf", "-o", tmp_path / "out")
    assert (shown.code, shown.out) == (0, "")
    assert "4 rows from 4 trials, jsonl; install pyarrow for Parquet" in shown.err
    rows = lines(tmp_path / "out")
    assert all(list(row) == [column.name for column in COLUMNS] for row in rows)
    assert [(row["task"], row["reward"], row["outcome"]) for row in rows] == [
        ("a", 1.0, "pass"),
        ("b", 0.25, "partial"),
        ("c", 1.0, "pass"),
        ("d", None, "infrastructure_error"),
    ]
    first = rows[0]
    assert {message["role"] for message in first["prompt"]} <= {"system", "user"}
    assert first["completion"][0]["role"] == "assistant"
    assert (first["input_tokens"], first["output_tokens"], rows[1]["input_tokens"]) == (7, 3, None)
    assert (rows[2]["prompt"], rows[2]["completion"]) == ([], [])
    assert rows[3]["error"].startswith("SandboxError: ")


@pytest.mark.usefixtures("without_pyarrow")
def test_the_card_names_files_features_and_what_a_mean_is_of(seatrial: Seatrial, job, tmp_path):
    assert seatrial("export", job, "--format", "hf", "-o", tmp_path / "out").code == 0
    card = (tmp_path / "out/README.md").read_text()
    assert card.startswith("---\nconfigs:\n- config_name: default\n")
    assert "path: data/train-*.jsonl" in card
    assert all(f"  - name: {column.name}\n" in card for column in COLUMNS)
    assert "3 of 4 rows have a reward; their mean is 0.7500" in card
    assert "1 infrastructure_error, 1 partial, 2 pass" in card


@pytest.mark.usefixtures("without_pyarrow")
def test_damaged_calls_cost_only_their_trial(seatrial: Seatrial, job, tmp_path):
    (job / "trials/a.oracle.1/calls.jsonl").write_text("{")
    shown = seatrial("export", job, "--format", "hf", "-o", tmp_path / "out")
    assert (shown.code, "a.oracle.1 is left out" in shown.err) == (1, True)
    assert [row["task"] for row in lines(tmp_path / "out")] == ["b", "c", "d"]


def test_what_is_there_is_not_replaced(seatrial: Seatrial, job, tmp_path):
    (tmp_path / "out").mkdir()
    refused = seatrial("export", job, "--format", "hf", "-o", tmp_path / "out")
    assert (refused.code, "is there already" in refused.err) == (2, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job", "out"]


def test_parquet_has_the_same_rows(seatrial: Seatrial, job, tmp_path, monkeypatch):
    parquet = pytest.importorskip("pyarrow.parquet", reason="no pyarrow: pip install 'seatrial[parquet]'")
    assert seatrial("export", job, "--format", "hf", "-o", tmp_path / "out").code == 0
    table = parquet.read_table(tmp_path / "out/data/train-00000.parquet")
    assert table.column_names == [column.name for column in COLUMNS]
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert seatrial("export", job, "--format", "hf", "-o", tmp_path / "plain").code == 0
    assert table.to_pylist() == lines(tmp_path / "plain")


def test_many_rows_are_several_files(seatrial: Seatrial, job, tmp_path, monkeypatch):
    monkeypatch.setattr("seatrial.report.formats.dataset_files.ROWS_PER_FILE", 3)
    assert seatrial("export", job, "--format", "hf", "-o", tmp_path / "out").code == 0
    names = sorted(path.stem for path in (tmp_path / "out/data").iterdir())
    assert names == ["train-00000", "train-00001"]
