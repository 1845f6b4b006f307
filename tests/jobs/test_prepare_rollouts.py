"""The job of an environment is made, gone on with and refused like any other. `env/test_saving_trials` runs them."""

import pytest

from seatrial.errors import JobError
from seatrial.jobs.lock import lock_task
from seatrial.jobs.prepare_rollouts import prepare_rollouts
from seatrial.store.job_store import JobStore
from seatrial.tasks.load import load_task
from tests.jobs.samples import job_file, job_spec


@pytest.fixture
def prepare(tasks, tmp_path):
    """`prepare("add", resume=True)`: the job of rollouts on some of the tasks."""

    def make(*names, resume=False, **changes):
        loaded = {name: load_task(tasks / name) for name in names}
        locked = [lock_task(task) for task in loaded.values()]
        return prepare_rollouts(tmp_path / "job", job_spec(**changes), loaded, locked, resume=resume)

    return make


def test_a_new_job_knows_who_drives_it(prepare):
    job = prepare("add", "sort", attempts=2)
    assert (job.is_new, job.store.file.driver) == (True, "environment")
    assert [plan.trial_id for plan in job.trials] == ["add.noop.1", "sort.noop.1", "add.noop.2", "sort.noop.2"]


def test_more_tasks_and_attempts_are_added_and_fewer_take_nothing_away(prepare):
    prepare("add")
    assert len(prepare("add", "sort", attempts=2, resume=True).trials) == 4
    job = prepare("sort", resume=True)
    assert (job.store.file.spec.attempts, [task.id for task in job.store.file.tasks]) == (2, ["add", "sort"])


def test_resume_in_a_folder_without_a_job_begins_one(prepare):
    assert prepare("add", resume=True).is_new


def test_what_is_not_the_same_is_refused(prepare, tasks):
    prepare("add")
    with pytest.raises(JobError, match="holds a job already"):
        prepare("add")
    (tasks / "add/instruction.md").write_text("Something else.\n")
    with pytest.raises(JobError, match=r"not the same evaluation.*\n.*task add: its files have changed"):
        prepare("add", resume=True)


def test_a_job_of_seatrial_run_is_left_alone(prepare, tmp_path):
    JobStore.create(tmp_path / "job", job_file())
    with pytest.raises(JobError, match="holds a job of `seatrial run`"):
        prepare("add", resume=True)
