"""What makes a job another job, what only adds to it, and what is left."""

import pytest

from seatrial.jobs.plan import plan_trials
from seatrial.jobs.resume import changed_tasks, compare_specs, extensions, remaining
from seatrial.model.job import AgentOptions, RunOptions, TrialOptions
from tests.jobs.samples import NOOP, job_file, job_spec

OTHER = AgentOptions(name="oracle")


def test_the_same_spec():
    assert compare_specs(job_spec(), job_spec()) == extensions(job_spec(), job_spec()) == []


def test_how_it_is_carried_out_does_not_matter():
    new = job_spec(run=RunOptions(concurrent=9, retries=0, shuffle_seed=1))
    assert compare_specs(job_spec(), new) == extensions(job_spec(), new) == []


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"name": "daily"}, "name: was 'nightly', is 'daily'"),
        ({"attempts": 2}, "attempts: was 3, is 2, which is fewer"),
        ({"trial": TrialOptions(isolation="kill")}, "trial.isolation: was 'guarded', is 'kill'"),
        ({"agents": (OTHER,)}, "agents: 'noop' is not among them any more"),
        ({"agents": (AgentOptions(name="noop", model="m"),)}, "agents.noop.model: was nothing, is 'm'"),
        ({"agents": (AgentOptions(name="noop", env={"A": "b"}),)}, "agents.noop.env: was nothing, is {'A': 'b'}"),
    ],
)
def test_what_must_not_be_mixed(changes, line):
    assert compare_specs(job_spec(attempts=3), job_spec(**{"attempts": 3, **changes})) == [line]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"attempts": 2}, "attempts: was 1, is 2"),
        ({"agents": (NOOP, OTHER)}, "agents: 'oracle' is new"),
        ({"tasks": ("/tasks", "/more")}, "tasks: was /tasks, is /tasks, /more"),
        ({"include": ("a*",)}, "include: was nothing, is a*"),
        ({"exclude": ("a*",)}, "exclude: was nothing, is a*"),
    ],
)
def test_what_only_adds(changes, line):
    assert compare_specs(job_spec(), job_spec(**changes)) == []
    assert extensions(job_spec(), job_spec(**changes)) == [line]


def test_tasks_that_changed_or_went_are_named():
    locked = job_file(("add", "sort", "merge")).tasks
    lines = changed_tasks(locked, {"add": "f" * 64, "sort": None})
    assert lines == [
        "task add: its files have changed (digest was 0123456789ab, is ffffffffffff)",
        "task sort: is not at /tasks/sort any more, or cannot be read as a task",
    ]
    assert changed_tasks(locked, {task.id: task.digest for task in locked}) == []


def test_what_is_left_is_a_set_difference():
    plans = plan_trials(["add", "sort"], [NOOP], 2)
    assert remaining(plans, {"add.noop.1", "sort.noop.2", "gone.noop.1"}) == [plans[1], plans[2]]
