"""`seatrial.compare` takes folders, loaded jobs and agents of them, and all say the same."""

import pytest

import seatrial
from seatrial.errors import JobError, UsageError
from tests.cli.job_folders import make_job, record

TASKS = [f"t{number}" for number in range(6)]


@pytest.fixture
def jobs(tmp_path):
    for name, reward in (("old", 0.0), ("new", 1.0)):
        make_job(tmp_path / name, *(record(task, reward, agent) for task in TASKS for agent in ("x", "y")))
    return tmp_path / "old", tmp_path / "new"


def answers(made):
    return [(each.first.agent, each.second.agent, each.paired.difference) for each in made.comparisons]


def test_folders_and_loaded_jobs_are_compared_alike(jobs):
    old, new = jobs
    expected = [("x", "x", 1.0), ("y", "y", 1.0)]
    assert answers(seatrial.compare(old, str(new))) == expected
    assert answers(seatrial.load_job(old).compare(seatrial.load_job(new))) == expected
    assert answers(seatrial.compare(old, new, agent="y")) == expected[1:]
    assert answers(seatrial.compare(old, new, agent=("x", "y"))) == [("x", "y", 1.0)]


def test_agents_of_one_job_and_of_two(jobs):
    old, new = map(seatrial.load_job, jobs)
    assert answers(old.compare()) == [("x", "y", 0.0)]
    assert answers(seatrial.compare(old.arms[1], old.arms[0])) == [("y", "x", 0.0)]
    assert answers(seatrial.compare(old.arms[1], new.arms[0])) == [("y", "x", 1.0)]


def test_a_part_of_a_job_is_compared_on_that_part(jobs):
    old, new = map(seatrial.load_job, jobs)
    (made,) = seatrial.compare(old.where("task=t[012]"), new, agent="x").comparisons
    assert len(made.pairs) == 3


def test_what_cannot_be_compared(jobs):
    old = seatrial.load_job(jobs[0])
    with pytest.raises(UsageError, match="give two of them"):
        seatrial.compare(old.arms[0], jobs[1])
    with pytest.raises(UsageError, match="is given twice"):
        seatrial.compare(old.arms[0], old.arms[0])
    with pytest.raises(UsageError, match="no agent="):
        seatrial.compare(*old.arms, agent="x")
    with pytest.raises(JobError, match="has no agent 'z'"):
        seatrial.compare(*jobs, agent="z")


def test_a_record_and_its_annotations_are_at_hand(jobs):
    job = seatrial.load_job(jobs[0])
    assert job.record("t0.x.1").trial_id == "t0.x.1"
    assert job.annotations == {}


@pytest.mark.parametrize("wrong", [{"level": 0}, {"level": 1.0}, {"level": "0.95"}, {"seed": -1}, {"seed": "x"}])
def test_levels_and_seeds_without_a_meaning_are_refused(jobs, wrong):
    (name,) = wrong
    with pytest.raises(UsageError, match=f"the {name} is .*, expected a"):
        seatrial.compare(*jobs, **wrong)
