"""Going on with a job: what is added to it, what is run again, and what forbids it. `test_prepare` has the whole."""

from typing import Any

import pytest

from seatrial.errors import JobError
from seatrial.jobs.continuing import extend_job, plan_rest, refuse_differences, set_failures_aside
from seatrial.model.job import LockedTask
from tests.jobs.samples import DIGEST, broken_machine, record


def test_tasks_that_are_new_are_added_and_the_others_stay_as_they_were(make_job):
    store = make_job().store
    before = store.file
    given = [LockedTask(id=name, name=name, root="/elsewhere", digest=DIGEST) for name in ("add", "extra")]
    assert extend_job(store, before.spec.model_copy(update={"attempts": 2}), given) == 1
    assert [task.id for task in store.file.tasks] == ["add", "merge", "sort", "extra"]
    assert store.file.tasks[:3] == before.tasks
    assert len(plan_rest(store.file)) == 8


def test_nobody_extends_a_job_that_another_run_is_at(make_job):
    store = make_job().store
    with store.lock(), pytest.raises(JobError, match="another run"):
        extend_job(store, store.file.spec, [])


def test_what_the_machinery_failed_is_left_to_do_again(make_job):
    store = make_job().store
    ours: dict[str, Any] = {"job_id": store.file.id, "job": store.file.spec.name}
    failed: dict[str, Any] = {"failure": broken_machine()}
    digests = {task.id: task.digest for task in store.file.tasks}
    for name, changes in (("add", failed), ("sort", {})):
        told = record(name, **ours, **changes)
        told = told.model_copy(update={"task": told.task.model_copy(update={"digest": digests[name]})})
        with store.draft(told.trial_id) as draft:
            draft.commit(told)
    assert set_failures_aside(store) == ["running again: 1 trial that the machine or a provider failed"]
    assert [plan.task_id for plan in plan_rest(store.file, store.finished())] == ["add", "merge"]


def test_differences_are_listed_with_what_to_do(tmp_path):
    refuse_differences(tmp_path, [])
    with pytest.raises(JobError, match="is not the same evaluation any more:\n  a\n  b\nstart anew"):
        refuse_differences(tmp_path, ["a", "b"], "start anew", "evaluation")
