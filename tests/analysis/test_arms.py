"""Arms: one agent of one job each, with labels that tell them apart whatever jobs and agents are called."""

from seatrial.analysis.arms import arms_of
from seatrial.analysis.loaded import load_job
from tests.cli.job_folders import BROKEN, make_job, record


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
    assert (oracle.tally.mean, oracle.tally.mean_if_failed) == (0.625, 0.3125)
    assert noop.rewards == {"a": [0.0]}


def test_an_agent_without_trials_is_an_arm_too(tmp_path):
    job = loaded(tmp_path / "job", missing_tasks=2)
    (arm,) = arms_of([job])
    assert (arm.label, arm.planned, arm.trials, arm.tally.mean) == ("oracle", 2, (), None)


def test_agents_of_one_name_are_told_apart_by_their_jobs(tmp_path):
    first, second = loaded(tmp_path / "mon", record("a", 1.0)), loaded(tmp_path / "tue", record("a", 1.0))
    third = loaded(tmp_path / "wed", record("a", 1.0, "noop"))
    assert [arm.label for arm in arms_of([first, second, third])] == ["oracle (mon)", "oracle (tue)", "noop"]


def test_jobs_of_one_name_are_told_apart_by_their_folders_and_one_job_twice_by_a_number(tmp_path):
    first, second = loaded(tmp_path / "x/job", record("a", 1.0)), loaded(tmp_path / "y/job", record("a", 1.0))
    assert [arm.label for arm in arms_of([first, second])] == [f"oracle ({tmp_path}/{name}/job)" for name in "xy"]
    again = [arm.label for arm in arms_of([first, first])]
    assert again == [f"oracle ({tmp_path}/x/job)", f"oracle ({tmp_path}/x/job) #2"]
