"""Whose tests are run: those of the tasks now, of a folder of tasks, or of one folder."""

from pathlib import Path

import pytest

from seatrial.errors import JobError
from seatrial.jobs.prepare import lock_task
from seatrial.jobs.regrade_plan import find_tasks
from seatrial.model.job import LockedTask
from seatrial.tasks.load import load_task


@pytest.fixture
def locked(tasks: Path) -> list[LockedTask]:
    return [lock_task(load_task(tasks / name)) for name in ("add", "sort")]


def test_the_tests_of_the_tasks_now(locked, tasks):
    (tasks / "add/tests/test.sh").write_text("exit 1\n")
    found = find_tasks(locked, (), None)
    assert found["add"].digest != locked[0].digest
    assert (found["sort"].digest, found["sort"].given) == (locked[1].digest, {})
    assert found["add"].tests_digests[None] != found["sort"].tests_digests[None]


def test_tests_are_taken_from_a_folder_of_tasks_by_id(locked, make_task, tmp_path):
    for name in ("add", "sort", "another"):
        make_task(f"others/{name}")
    found = find_tasks(locked, (), tmp_path / "others")
    assert found["sort"].given == {None: (tmp_path / "others/sort/tests",)}
    assert found["sort"].task.root == Path(locked[1].root)


def test_the_tests_of_one_task(locked, tasks):
    found = find_tasks(locked[:1], (), tasks / "sort/tests")
    assert found["add"].given == {None: (tasks / "sort/tests",)}
    with pytest.raises(JobError, match="is the tests/ of one task, and the trials are of 2"):
        find_tasks(locked, (), tasks / "sort/tests")


@pytest.mark.parametrize(("folder", "said"), [("none", "no such folder"), ("empty", "nor a rubric.toml, nor tasks")])
def test_a_folder_without_tests_is_named(locked, tmp_path, folder, said):
    (tmp_path / "empty").mkdir()
    with pytest.raises(JobError, match=said):
        find_tasks(locked, (), tmp_path / folder)


def test_tasks_without_tests_there_are_named(locked, make_task, tmp_path):
    make_task("others/add")
    with pytest.raises(JobError, match="has no tests for sort"):
        find_tasks(locked, (), tmp_path / "others")


def test_tasks_that_are_elsewhere_now_are_found_where_they_are_said_to_be(locked, tasks, tmp_path):
    tasks.rename(tmp_path / "moved")
    with pytest.raises(JobError, match=r"task add: is not at .*\n  task sort: .*\n-p FOLDER"):
        find_tasks(locked, (), None)
    found = find_tasks(locked, (tmp_path / "moved",), None)
    assert found["add"].task.root == tmp_path / "moved/add"
    assert found["add"].digest == locked[0].digest


def test_an_id_with_folders_in_front_is_found_by_the_name_of_the_task(locked, tasks, tmp_path):
    long = locked[0].model_copy(update={"id": "some/where/add", "root": str(tmp_path / "gone")})
    assert find_tasks([long], (tasks,), None)["some/where/add"].task.id == "some/where/add"
