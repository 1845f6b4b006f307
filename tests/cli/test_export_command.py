"""`seatrial export`: files for other tools, as a whole or not at all, the same bytes each time."""

import json
import sys

import pytest

from seatrial.gateway.calls import CallLog
from seatrial.model.record import ModelUsage, StepRecord
from seatrial.report.dataset import COLUMNS
from tests.cli.conftest import Seatrial
from tests.cli.job_folders import BROKEN, evaluation, make_job, record
from tests.trajectories.samples import Anthropic, Chat, Trial, whole_trial


def write_calls(folder, trial: Trial):
    folder.mkdir(parents=True, exist_ok=True)
    with CallLog(folder) as log:
        for each in trial.calls:
            log.write(each)


@pytest.fixture
def job(tmp_path):
    """Trials: one that passed, one that failed, one with steps, and one without calls."""
    steps = (StepRecord(name="one", evaluation=evaluation(0.5)),)
    records = [record("a", 1.0), record("b", 0.25), record("c", 0.0, steps=steps), record("d", 1.0)]
    store = make_job(tmp_path / "job", *records)
    write_calls(store.trial_folder("a.oracle.1"), whole_trial(Anthropic()))
    write_calls(store.trial_folder("b.oracle.1"), whole_trial(Chat()))
    write_calls(store.trial_folder("c.oracle.1") / "steps" / "one", whole_trial(Chat()))
    return tmp_path / "job"


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_trajectories_in_a_folder_with_their_images(seatrial: Seatrial, job, tmp_path):
    shown = seatrial("export", job, "--format", "atif", "-o", tmp_path / "out")
    assert (shown.code, shown.out) == (0, "")
    assert "3 trajectories from 3 trials; 1 trial has no model calls" in shown.err
    files = sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.json"))
    assert files == ["a.oracle.1/trajectory.json", "b.oracle.1/trajectory.json", "c.oracle.1/steps/one/trajectory.json"]
    assert len(list((tmp_path / "out").rglob("*.png"))) == 3
    step = json.loads((tmp_path / "out" / files[2]).read_text())
    assert (step["session_id"], step["extra"]["trial"]["reward"]) == ("c.oracle.1/one", 0.5)


def test_one_trajectory_in_a_file(seatrial: Seatrial, job, tmp_path):
    assert seatrial("export", job, "--format", "atif", "--trial", "a", "-o", tmp_path / "a.json").code == 0
    whole = json.loads((tmp_path / "a.json").read_text())
    image = whole["steps"][-2]["message"][1]["source"]["path"]
    assert (tmp_path / image).is_file()
    refused = seatrial("export", job, "--format", "atif", "-o", tmp_path / "all.json")
    assert (refused.code, (tmp_path / "all.json").exists()) == (2, False)
    assert "is one file, and there are 3 trajectories" in refused.err


def test_lines_for_fine_tuning_with_a_second_file_that_says_what_they_are(seatrial: Seatrial, job, tmp_path):
    output = tmp_path / "new" / "train.jsonl"
    assert seatrial("export", job, "--format", "openai-jsonl", "-o", output).code == 0
    assert [set(line) for line in lines(output)] == [{"messages", "tools"}] * 3
    facts = lines(tmp_path / "new" / "train.metadata.jsonl")
    assert [(each["trial_id"], each["reward"], each["thread"]) for each in facts] == [
        ("a.oracle.1", 1.0, "main"),
        ("b.oracle.1", 0.25, "main"),
        ("c.oracle.1", 0.5, "main"),
    ]


def test_all_threads_and_the_same_bytes_again(seatrial: Seatrial, job, tmp_path):
    for name in ("one", "two"):
        command = ("export", job, "--format", "openai-jsonl", "--threads", "all", "--trial", "a", "-o", tmp_path / name)
        assert seatrial(*command).code == 0
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert [each["thread"] for each in lines(tmp_path / "one.metadata.jsonl")] == ["main", "title", "sub-agent 1"]


@pytest.mark.parametrize(
    ("more", "tasks"),
    [
        (("--passed",), ["a"]),
        (("--min-reward", "0.25"), ["a", "b"]),
        (("--where", "task=[bc]"), ["b", "c"]),
        (("--where", "outcome=partial", "--where", "agent=ora*"), ["b"]),
    ],
)
def test_filters(seatrial: Seatrial, job, tmp_path, more, tasks):
    assert seatrial("export", job, "--format", "openai-jsonl", "-o", tmp_path / "x", *more).code == 0
    assert [each["task"] for each in lines(tmp_path / "x.metadata.jsonl")] == tasks


@pytest.mark.parametrize("form", ["openai-jsonl", "atif"])
def test_what_reviewers_said_goes_with_a_trial(seatrial: Seatrial, job, tmp_path, form):
    seatrial("annotate", job, "a", "--judgment", "fail", "--reviewer", "ada")
    assert seatrial("export", job, "--format", form, "--trial", "a", "-o", tmp_path / "x.json").code == 0
    path = tmp_path / ("x.metadata.jsonl" if form == "openai-jsonl" else "x.json")
    made = json.loads(path.read_text())
    facts = made if form == "openai-jsonl" else made["extra"]["trial"]
    assert [(said["reviewer_id"], said["judgment"]) for said in facts["annotations"]] == [("ada", "fail")]


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (("--where", "size=3"), "there is no key 'size'"),
        (("--min-reward", "2"), "no trial is as asked for"),
        (("--trial", "d"), "nothing to export; no model answered in 1 trial"),
    ],
)
def test_what_cannot_be_exported_leaves_nothing(seatrial: Seatrial, job, tmp_path, more, complaint):
    shown = seatrial("export", job, "--format", "openai-jsonl", "-o", tmp_path / "x", *more)
    assert shown.code == 2
    assert complaint in shown.err
    assert [path.name for path in tmp_path.iterdir()] == ["job"]


def test_nothing_is_replaced(seatrial: Seatrial, job, tmp_path):
    (tmp_path / "train.metadata.jsonl").write_text("mine")
    for name in ("train.jsonl", "train.metadata.jsonl"):
        shown = seatrial("export", job, "--format", "openai-jsonl", "-o", tmp_path / name)
        assert (shown.code, "is there already" in shown.err) == (2, True)
    assert (tmp_path / "train.metadata.jsonl").read_text() == "mine"
    assert not (tmp_path / "train.jsonl").exists()


def test_damaged_calls_are_named_and_the_others_exported(seatrial: Seatrial, job, tmp_path):
    path = job / "trials" / "a.oracle.1" / "calls.jsonl"
    path.write_bytes(path.read_bytes() + b'{"index":')
    shown = seatrial("export", job, "--format", "openai-jsonl", "-o", tmp_path / "x")
    assert (shown.code, len(lines(tmp_path / "x"))) == (1, 2)
    assert f"{path} is damaged and left out" in shown.err
    assert "pydantic" not in shown.err


@pytest.mark.parametrize("link", ["calls.jsonl", "steps", "steps/one", "steps/one/calls.jsonl"])
@pytest.mark.parametrize(
    "command",
    [
        ("calls",),
        ("export", "--format", "atif"),
        ("export", "--format", "openai-jsonl"),
        ("export", "--format", "hf"),
    ],
    ids=lambda command: command[-1],
)
def test_no_link_in_a_job_of_strangers_is_followed(seatrial: Seatrial, job, tmp_path, link, command):
    """What it leads to would be sent to whoever gets the export."""
    secret = tmp_path / "secret"
    write_calls(secret / "steps" / "one", whole_trial(Chat()))
    write_calls(secret, whole_trial(Chat()))
    trial = job / "trials" / ("a.oracle.1" if link == "calls.jsonl" else "c.oracle.1")
    (trial / link).rename(tmp_path / "taken away")
    (trial / link).symlink_to(secret / link)
    name, *options = command
    shown = seatrial(name, job, *((*options, "-o", tmp_path / "out") if options else (trial.name,)))
    assert (shown.code, shown.out) == (1, "")
    assert f"{trial / link.removesuffix('/calls.jsonl')}" in shown.err
    assert "link" in shown.err
    assert not (tmp_path / "out").exists()


def test_a_job_that_is_named_by_a_link_is_read(seatrial: Seatrial, job, tmp_path):
    (tmp_path / "named").symlink_to(job)
    assert seatrial("export", tmp_path / "named", "--format", "atif", "-o", tmp_path / "out").code == 0


@pytest.fixture
def mixed_job(tmp_path):
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


def rows_of(folder):
    return [json.loads(line) for line in (folder / "data/train-00000.jsonl").read_text().splitlines()]


@pytest.mark.usefixtures("without_pyarrow")
def test_rows_with_every_column(seatrial: Seatrial, mixed_job, tmp_path):
    shown = seatrial("export", mixed_job, "--format", "hf", "-o", tmp_path / "out")
    assert (shown.code, shown.out) == (0, "")
    assert "4 rows from 4 trials, jsonl; install pyarrow for Parquet" in shown.err
    rows = rows_of(tmp_path / "out")
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
def test_the_card_names_files_features_and_what_a_mean_is_of(seatrial: Seatrial, mixed_job, tmp_path):
    assert seatrial("export", mixed_job, "--format", "hf", "-o", tmp_path / "out").code == 0
    card = (tmp_path / "out/README.md").read_text()
    assert card.startswith("---\nconfigs:\n- config_name: default\n")
    assert "path: data/train-*.jsonl" in card
    assert all(f"  - name: {column.name}\n" in card for column in COLUMNS)
    assert "3 of 4 rows have a reward; their mean is 0.7500" in card
    assert "1 infrastructure_error, 1 partial, 2 pass" in card


@pytest.mark.usefixtures("without_pyarrow")
def test_damaged_calls_cost_only_their_trial(seatrial: Seatrial, mixed_job, tmp_path):
    (mixed_job / "trials/a.oracle.1/calls.jsonl").write_text("{")
    shown = seatrial("export", mixed_job, "--format", "hf", "-o", tmp_path / "out")
    assert (shown.code, "a.oracle.1 is left out" in shown.err) == (1, True)
    assert [row["task"] for row in rows_of(tmp_path / "out")] == ["b", "c", "d"]


def test_what_is_there_is_not_replaced(seatrial: Seatrial, mixed_job, tmp_path):
    (tmp_path / "out").mkdir()
    refused = seatrial("export", mixed_job, "--format", "hf", "-o", tmp_path / "out")
    assert (refused.code, "is there already" in refused.err) == (2, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job", "out"]


def test_parquet_has_the_same_rows(seatrial: Seatrial, mixed_job, tmp_path, monkeypatch):
    parquet = pytest.importorskip("pyarrow.parquet", reason="no pyarrow: pip install 'seatrial[parquet]'")
    assert seatrial("export", mixed_job, "--format", "hf", "-o", tmp_path / "out").code == 0
    table = parquet.read_table(tmp_path / "out/data/train-00000.parquet")
    assert table.column_names == [column.name for column in COLUMNS]
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert seatrial("export", mixed_job, "--format", "hf", "-o", tmp_path / "plain").code == 0
    assert table.to_pylist() == rows_of(tmp_path / "plain")


def test_many_rows_are_several_files(seatrial: Seatrial, mixed_job, tmp_path, monkeypatch):
    monkeypatch.setattr("seatrial.report.dataset.ROWS_PER_FILE", 3)
    assert seatrial("export", mixed_job, "--format", "hf", "-o", tmp_path / "out").code == 0
    names = sorted(path.stem for path in (tmp_path / "out/data").iterdir())
    assert names == ["train-00000", "train-00001"]
