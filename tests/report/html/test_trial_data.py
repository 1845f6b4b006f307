import json
import random
from itertools import accumulate
from pathlib import Path

from seatrial.analysis.arms import arms_of
from seatrial.report.html.trial_data import folder_link, trial_data
from tests.analysis.memory_jobs import memory_job, trial
from tests.report.sample_reports import hostile_job, sample_job


def unfolded(data):
    """What the page makes of the columns: a row for each trial."""
    arms = [arm for arm, count in zip(data["arms"], data["runs"], strict=True) for _ in range(count)]
    tasks = [data["tasks"][place] for place in accumulate(data["task"])]
    for index, (arm, task) in enumerate(zip(arms, tasks, strict=True)):
        own = data["ids"].get(str(index), f"{task}.{arm['agent']}.{data['attempt'][index]}")
        outcome = data["outcomes"][data["outcome"][index]]
        reward = data["reward"][index] if data["reward"] else None
        yield own, arm["label"], task, outcome, reward


def expected(jobs):
    for arm in arms_of(jobs):
        for each in sorted(arm.trials, key=lambda trial: (trial.task_id, trial.attempt, trial.trial_id)):
            yield each.trial_id, arm.label, each.task_id, each.outcome, each.reward


def test_every_trial_is_in_the_columns():
    jobs = [sample_job(), sample_job(tasks=3, name="second")]
    assert [*unfolded(json.loads(trial_data(arms_of(jobs), None)))] == [*expected(jobs)]


def test_hostile_names_cannot_end_the_element():
    jobs = [hostile_job()]
    text = trial_data(arms_of(jobs), Path("/reports"))
    assert not set(text) & set("<>&\u2028\u2029")
    assert [*unfolded(json.loads(text))] == [*expected(jobs)]


def test_a_reward_that_does_not_count_is_not_shown():
    broken = trial("t", "a", 1.0)._replace(outcome="verifier_error")
    data = json.loads(trial_data(arms_of([memory_job([broken])]), None))
    assert data["reward"] == []
    assert data["time"] == [2]


def test_tags_are_kept_however_many_trials_could_not_be_run(monkeypatch):
    monkeypatch.setattr("seatrial.report.html.trial_data._MOST_NOTES", 3)
    broken = [trial("a", "x", None, number, failure=f"SandboxError: box {number} is gone") for number in range(1, 9)]
    data = json.loads(trial_data(arms_of([memory_job([*broken, trial("z", "x", 0.0, tags=("human:wrong",))])]), None))
    assert data["notes"][data["note"][-1]] == ["human:wrong"]
    assert data["notes"][data["note"][7]] == []


def test_folders_are_linked_from_where_the_page_lies_and_never_by_a_scheme():
    assert folder_link(Path("/jobs/one/trials"), Path("/jobs")) == "./one/trials/"
    assert folder_link(Path("/jobs/one/trials"), Path("/reports/may")) == "./../../jobs/one/trials/"
    assert folder_link(Path("/jobs/javascript:x?#/trials"), Path("/jobs")) == "./javascript%3Ax%3F%23/trials/"


def test_many_trials_take_few_bytes():
    chance = random.Random(1)
    trials = [
        trial(f"task-{task:04d}", f"agent-{agent}", round(chance.random(), 3), duration_sec=chance.lognormvariate(3, 1))
        for task in range(200)
        for agent in range(5)
    ]
    assert len(trial_data(arms_of([memory_job(trials)]), None)) < 30 * len(trials)
