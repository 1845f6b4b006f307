"""Arms: one agent of one job each, with labels that tell them apart whatever jobs and agents are called."""

import datetime as dt
import sys

import pytest

from seatrial.analysis.arms import COLUMNS, arms_of, trial_rows
from seatrial.analysis.loaded import load_job
from seatrial.errors import UsageError
from seatrial.model.evaluation import Annotation, Judgment
from seatrial.model.job import AgentOptions
from tests.analysis.memory_jobs import memory_job, trial
from tests.cli.job_folders import BEGUN, BROKEN, full_record, make_job, record


def loaded(folder, *records, **more):
    make_job(folder, *records, **more)
    return load_job(folder)


def test_each_agent_is_an_arm_with_its_own_trials(tmp_path):
    trials = (record("a", 1.0), record("a", 0.25, attempt=2), record("b", BROKEN), record("a", 0.0, "noop"))
    oracle, noop = arms_of([loaded(tmp_path / "job", *trials, attempts=2)])
    assert (oracle.label, noop.label) == ("oracle", "noop")
    assert (oracle.planned, len(oracle.trials), len(oracle.scored)) == (4, 3, 2)
    assert oracle.rewards == {"a": [1.0, 0.25]}
    assert oracle.attempts == {"a": (2, 1)}
    assert (oracle.figures.mean, oracle.figures.mean_if_failed) == (0.625, 0.3125)
    assert noop.rewards == {"a": [0.0]}


def test_an_agent_without_trials_is_an_arm_too(tmp_path):
    job = loaded(tmp_path / "job", missing_tasks=2)
    (arm,) = arms_of([job])
    assert (arm.label, arm.planned, arm.trials, arm.figures.mean) == ("oracle", 2, (), None)


def test_agents_of_one_name_are_told_apart_by_their_jobs(tmp_path):
    first, second = loaded(tmp_path / "mon", record("a", 1.0)), loaded(tmp_path / "tue", record("a", 1.0))
    third = loaded(tmp_path / "wed", record("a", 1.0, "noop"))
    assert [arm.label for arm in arms_of([first, second, third])] == ["oracle (mon)", "oracle (tue)", "noop"]


def test_jobs_of_one_name_are_told_apart_by_their_folders_and_one_job_twice_by_a_number(tmp_path):
    first, second = loaded(tmp_path / "x/job", record("a", 1.0)), loaded(tmp_path / "y/job", record("a", 1.0))
    assert [arm.label for arm in arms_of([first, second])] == [f"oracle ({tmp_path}/{name}/job)" for name in "xy"]
    again = [arm.label for arm in arms_of([first, first])]
    assert again == [f"oracle ({tmp_path}/x/job)", f"oracle ({tmp_path}/x/job) #2"]


NAMES = [column.name for column in COLUMNS]


def rows(*jobs):
    return [dict(zip(NAMES, row, strict=True)) for row in trial_rows(arms_of(jobs))]


def test_names_are_unique_and_rows_are_by_arm_task_and_attempt():
    assert len(NAMES) == len({*NAMES})
    trials = [trial("b", "y", 1.0, 2), trial("b", "y", 1.0), trial("a", "x", 1.0), trial("a", "y", 0.0)]
    assert [row["trial_id"] for row in rows(memory_job(trials))] == ["a.y.1", "b.y.1", "b.y.2", "a.x.1"]


def test_what_was_not_judged_has_no_reward_and_did_not_fail():
    judged, broken, silent = rows(
        memory_job([trial("a", "x", 0.0), trial("b", "x", None), trial("c", "x", 0.0, outcome="verifier_error")])
    )
    assert (judged["scored"], judged["reward"], judged["passed"]) == (True, 0.0, False)
    for row in (broken, silent):
        assert (row["scored"], row["reward"], row["passed"]) == (False, None, None)
    assert broken["failure"] == "SandboxError: no space left"


def test_jobs_with_the_same_agent_have_arms_and_models_of_their_own():
    first = memory_job([trial("a", "x", 1.0)], agents=(AgentOptions(name="x", model="m1"),), name="one")
    second = memory_job([trial("a", "x", 0.0)], agents=(AgentOptions(name="x", model="m2"),), name="two")
    found = rows(first, second)
    assert [(row["arm"], row["job"], row["model"]) for row in found] == [
        ("x (one)", "one", "m1"),
        ("x (two)", "two", "m2"),
    ]


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
