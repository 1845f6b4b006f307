"""Finding tasks: at any depth, in a stable order, each with its own id, broken ones beside good ones."""

import os
import subprocess
import sys

import pytest

from seatrial.errors import DatasetNotFoundError
from seatrial.model.task import BrokenTask, SkippedFolder, Task
from seatrial.tasks.dataset import load_dataset, scan
from seatrial.tasks.layout import list_files


def ids(path):
    return [task.id for task in load_dataset(path).tasks]


def reasons(path):
    return {folder.path.name: folder.reason for folder in load_dataset(path).skipped}


def test_wild_6_tasks_are_found_at_any_depth_in_the_order_of_their_paths(make_task, tmp_path):
    for name in ("tasks/b", "tasks/a/x/y/z", "zeta", "datasets/one/B", "datasets/one/a", "tasks/a1"):
        make_task(name)
    assert ids(tmp_path) == ["datasets/one/B", "datasets/one/a", "tasks/a/x/y/z", "tasks/a1", "tasks/b", "zeta"]


def test_wild_4_repeated_folder_names_have_ids_of_their_own(make_task, tmp_path):
    for place in ("a", "b", "c/d"):
        make_task(f"{place}/hello-world")
    assert ids(tmp_path) == ["a/hello-world", "b/hello-world", "c/d/hello-world"]
    assert {task.name for task in load_dataset(tmp_path).tasks} == {"hello-world"}


def test_names_with_spaces_and_of_any_language_are_kept(make_task, tmp_path):
    for name in ("hello world", "größe", "任务"):
        make_task(name)
    assert ids(tmp_path) == ["größe", "hello world", "任务"]


@pytest.mark.parametrize("path", ["set/one", "set/one/task.toml", "set/one/", "link"])
def test_one_task_may_be_named_by_its_folder_its_file_or_a_link(make_task, tmp_path, path):
    make_task("set/one")
    (tmp_path / "link").symlink_to("set/one")
    assert ids(f"{tmp_path}/{path}") == ["one"]


def test_a_relative_path_is_fine(make_task, tmp_path, monkeypatch):
    make_task("set/one")
    monkeypatch.chdir(tmp_path / "set")
    assert ids(".") == ["one"]
    monkeypatch.chdir(tmp_path / "set/one")
    assert ids(".") == ["one"]


@pytest.mark.parametrize(
    "name", ["template", "Templates", "_template", "task-template", "TASK_TEMPLATE", "draft", "drafts", "_drafts_"]
)
def test_wild_6_templates_and_drafts_are_skipped_unless_asked_for(make_task, tmp_path, name):
    make_task("good")
    make_task(f"set/{name}/one")
    assert ids(tmp_path) == ["good"]
    assert reasons(tmp_path) == {name: "named like a template or draft; pass its path to load it"}
    assert ids(tmp_path / "set" / name) == ["one"]


@pytest.mark.parametrize("name", ["template-engine", "drafting", "my-draft"])
def test_a_name_that_only_resembles_a_template_is_a_task(make_task, tmp_path, name):
    make_task(name)
    assert ids(tmp_path) == [name]


def test_a_linked_folder_is_skipped_with_the_way_to_load_it(make_task, tmp_path):
    make_task("set/good")
    make_task("elsewhere/far")
    (tmp_path / "set/near").symlink_to("../elsewhere")
    (tmp_path / "set/around").symlink_to(".")
    assert ids(tmp_path / "set") == ["good"]
    reason = "a symbolic link to a folder; pass its target to load it"
    assert reasons(tmp_path / "set") == {"around": reason, "near": reason}


@pytest.mark.parametrize("target", ["loop", "nothing"])
def test_a_link_that_leads_nowhere_stops_nobody(make_task, tmp_path, target):
    make_task("good")
    (tmp_path / "loop").symlink_to(target)
    assert ids(tmp_path) == ["good"]


def test_a_folder_whose_name_is_not_utf8_is_skipped_and_shown(make_task, tmp_path):
    make_task("good")
    make_task("odd").rename(os.fsdecode(os.fsencode(tmp_path) + b"/odd-\xff"))
    assert ids(tmp_path) == ["good"]
    assert reasons(tmp_path) == {"odd-\\xff": "its name is not UTF-8; rename it"}


@pytest.mark.parametrize("name", [".hidden", ".git", "__pycache__", "node_modules", ".venv"])
def test_folders_of_tools_are_passed_over_in_silence(make_task, tmp_path, name):
    make_task("good")
    make_task(f"{name}/one")
    dataset = load_dataset(tmp_path)
    assert ([task.id for task in dataset.tasks], dataset.skipped) == (["good"], ())


def test_a_task_inside_a_task_is_part_of_it(make_task, tmp_path):
    make_task("outer")
    make_task("outer/environment/inner")
    assert ids(tmp_path) == ["outer"]


def test_tasks_inside_a_task_are_named(make_task, tmp_path):
    make_task("outer")
    make_task("outer/tests/fixture")
    assert load_dataset(tmp_path).outlines[0].problems == (), "what its own parts hold is its business"
    make_task("outer/tasks/one")
    (problem,) = load_dataset(tmp_path).outlines[0].problems
    assert (problem.code, problem.severity, problem.file) == ("nested-task", "warning", "tasks/one")
    assert problem.fix == f"move it out, or name it: {tmp_path}/outer/tasks/one"
    for name in ("two", "three", "four"):
        make_task(f"outer/tasks/{name}")
    (problem,) = load_dataset(tmp_path).outlines[0].problems
    assert problem.message.startswith("4 tasks lie inside this task's folder (tasks/four, tasks/one, tasks/three, …)")


def test_wild_6_a_broken_task_is_reported_beside_the_good_ones(make_task, tmp_path):
    make_task("a")
    make_task("b/broken", toml="[agent")
    make_task("c")
    dataset = load_dataset(tmp_path)
    assert [task.id for task in dataset.tasks] == ["a", "c"]
    assert dataset.files == {tmp_path / name: list_files(tmp_path / name) for name in ("a", "c")}
    assert [(task.id, task.root) for task in dataset.broken] == [("b/broken", tmp_path / "b/broken")]
    assert dataset.broken[0].problems[0].code == "bad-toml"


@pytest.mark.parametrize("part", ["tests", "solution", "environment"])
def test_a_folder_that_looks_like_a_task_without_a_task_toml_is_broken(make_task, tmp_path, part):
    root = make_task("nearly", files={f"{part}/file": ""})
    (root / "task.toml").unlink()
    if part != "tests":
        (root / "tests").rename(tmp_path / "moved")
    (found,) = load_dataset(tmp_path).broken
    assert found.id == "nearly"
    assert [(p.code, p.file) for p in found.problems] == [("no-task-toml", "task.toml")]


def test_an_instruction_alone_does_not_look_like_a_task(make_task, tmp_path):
    make_task("docs/example")
    (tmp_path / "docs/instruction.md").write_text("How to write tasks.")
    assert ids(tmp_path) == ["docs/example"]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("nothing", "no such file or folder"),
        ("empty", "no folder with a task.toml at any depth"),
        ("empty/notes.txt", "found a file, expected a task folder"),
        ("skipped", "no folder with a task.toml at any depth"),
    ],
)
def test_a_path_without_tasks_raises_with_the_path_and_the_reason(make_task, tmp_path, path, reason):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty/notes.txt").write_text("")
    make_task("skipped/drafts/one")
    with pytest.raises(DatasetNotFoundError) as caught:
        load_dataset(tmp_path / path)
    assert str(caught.value).startswith(f"{tmp_path / path}: {reason}")


def test_folders_nested_a_thousand_deep_stop_nobody(make_task, tmp_path, nest):
    make_task("good")
    (tmp_path / "deep").mkdir()
    nest(tmp_path / "deep")
    assert ids(tmp_path) == ["good"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every folder")
def test_a_folder_that_may_not_be_read_is_skipped(make_task, tmp_path):
    make_task("good")
    (tmp_path / "locked").mkdir(mode=0)
    assert ids(tmp_path) == ["good"]
    assert reasons(tmp_path) == {"locked": "cannot be read: Permission denied"}


def test_scan_yields_each_kind_in_the_order_of_the_paths(make_task, tmp_path):
    make_task("a")
    make_task("b", toml="?")
    make_task("drafts/x")
    make_task("z")
    assert [type(entry) for entry in scan(tmp_path)] == [Task, BrokenTask, SkippedFolder, Task]


def test_scan_looks_at_a_task_only_when_asked_for_it(make_task, tmp_path):
    make_task("a")
    late = make_task("b")
    entries = scan(tmp_path)
    next(entries)
    (late / "task.toml").write_text('[task]\nname = "written/meanwhile"')
    found = next(entries)
    assert isinstance(found, Task)
    assert found.name == "written/meanwhile"


def test_two_processes_find_the_same_problems_in_the_same_order(make_task):
    root = make_task(toml="".join(f"key_{letter} = 1\n" for letter in "qwertyuiop"))
    code = "import sys; from seatrial.tasks.load import load_task; print(*load_task(sys.argv[1]).problems, sep='\\n')"
    runs = [
        subprocess.run(
            [sys.executable, "-c", code, root],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]


@pytest.mark.parametrize("place", ["", "set"])
def test_a_path_that_is_not_utf8_is_refused_because_no_record_could_hold_it(make_task, tmp_path, place):
    odd = tmp_path / os.fsdecode(b"odd-\xff")
    (odd / place).mkdir(parents=True)
    make_task("good").rename(odd / place / "good")
    with pytest.raises(DatasetNotFoundError, match="not UTF-8"):
        load_dataset(odd / place)
