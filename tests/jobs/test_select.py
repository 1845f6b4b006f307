"""Choosing tasks."""

import pytest

from seatrial.errors import DatasetNotFoundError, JobError
from seatrial.jobs.select import select_tasks
from tests.jobs.samples import job_spec


def chosen(*paths, **changes):
    return list(select_tasks(job_spec(tasks=tuple(map(str, paths)), **changes)).tasks)


def test_everything_by_default(tasks):
    assert chosen(tasks) == ["add", "merge", "sort"]


@pytest.mark.parametrize(
    ("globs", "ids"),
    [
        ({"include": ("a*", "sort")}, ["add", "sort"]),
        ({"exclude": ("*r*",)}, ["add"]),
        ({"include": ("*d*", "m*"), "exclude": ("add",)}, ["merge"]),
    ],
)
def test_globs(tasks, globs, ids):
    assert chosen(tasks, **globs) == ids


def test_only_so_many_of_those_that_were_chosen(tasks):
    assert chosen(tasks, max_tasks=2) == ["add", "merge"]
    assert chosen(tasks, exclude=("add",), max_tasks=1) == ["merge"]
    assert chosen(tasks, max_tasks=99) == ["add", "merge", "sort"]


def test_globs_also_know_the_name(tasks, make_task):
    make_task("tasks/x1", toml='[task]\nname = "acme/weld"\n')
    assert chosen(tasks, include=("acme/*",)) == ["x1"]


def test_the_same_folder_twice_is_one_task(tasks):
    assert chosen(tasks, tasks / "add", tasks) == ["add", "merge", "sort"]


def test_the_same_id_in_two_datasets_gets_the_folder_in_front(tasks, make_task, tmp_path):
    make_task("more/add")
    make_task("more/weld")
    assert chosen(tasks, tmp_path / "more") == ["tasks/add", "merge", "sort", "more/add", "weld"]


def test_single_tasks_of_the_same_name_are_told_apart_too(make_task):
    paths = [make_task(f"{folder}/tasks/add") for folder in ("one", "two")]
    assert chosen(*paths) == ["one/tasks/add", "two/tasks/add"]


def test_a_task_that_had_an_id_keeps_it(tasks, make_task, tmp_path):
    make_task("more/add")
    spec = job_spec(tasks=(str(tasks), str(tmp_path / "more")))
    assert list(select_tasks(spec, {tasks / "add": "add"}).tasks) == ["add", "merge", "sort", "more/add"]


def test_broken_tasks_are_told_and_left_out(tasks, make_task):
    make_task("tasks/bad", toml="agent = 1\n[[x")
    selection = select_tasks(job_spec(tasks=(str(tasks),)))
    assert "bad" not in selection.tasks
    assert selection.notices[0].startswith("task bad is left out, it cannot be read: task.toml")
    assert not select_tasks(job_spec(tasks=(str(tasks),), exclude=("bad",))).notices


def test_a_glob_without_effect_is_told_with_what_is_similar(tasks):
    notices = select_tasks(job_spec(tasks=(str(tasks),), include=("add", "srot"))).notices
    assert notices == ["include 'srot' matches no task; similar: sort"]


def test_nothing_left(tasks):
    with pytest.raises(JobError, match=r"3 usable tasks.*\n.*'srot' matches no task; similar: sort"):
        chosen(tasks, include=("srot",))
    with pytest.raises(JobError, match="none is left to run"):
        chosen(tasks, exclude=("*",))


def test_nothing_there(tmp_path):
    with pytest.raises(DatasetNotFoundError):
        chosen(tmp_path / "nowhere")
