"""`seatrial tasks`: a line per task, everything as JSON, and what could not be read."""

import json
import os
from pathlib import Path

import pytest

from seatrial.tasks.layout import digest_folder
from seatrial.tasks.load import load_task
from tests.cli.conftest import SEATRIAL, Seatrial, cells, on_terminal, start
from tests.conftest import REPOSITORY, MakeTask, sampled

EXAMPLES = REPOSITORY / "examples" / "tasks"
HEADER = ["task", "output", "format", "known by", "image", "agent time"]


@pytest.fixture
def dataset(make_task: MakeTask, tmp_path: Path) -> Path:
    """A good task, a broken one, one without its task.toml, and a draft."""
    make_task("good", instruction="Write it to `/workspace/a.json`.\n", toml="[agent]\ntimeout_sec = 90\n")
    make_task("broken", toml="[agent]\ntimeout_sec = -5\n")
    make_task("bare").joinpath("task.toml").unlink()
    make_task("drafts/idea")
    return tmp_path


def test_a_pipe_gets_one_line_per_task(seatrial: Seatrial):
    shown = seatrial("tasks", EXAMPLES, "--no-problems")
    header, *rows = [cells(line) for line in shown.out.splitlines()]
    assert header == HEADER
    assert [row[0] for row in rows] == sorted(path.name for path in EXAMPLES.iterdir())
    assert {len(row) for row in rows} == {len(HEADER)}
    assert ["voltage-drop", "/workspace/report.md", "md", "inferred", "python:3.11-slim", "300 s"] in rows
    assert shown.err == f"{len(rows)} tasks, 0 broken, 0 skipped\n"


def test_a_single_task_may_be_named_by_its_folder_or_its_file(seatrial: Seatrial):
    by_folder = seatrial("tasks", EXAMPLES / "voltage-drop")
    assert by_folder.out.splitlines()[1].startswith("voltage-drop  ")
    assert seatrial("tasks", EXAMPLES / "voltage-drop" / "task.toml") == by_folder


def test_what_a_task_leaves_open_is_shown_as_open(seatrial: Seatrial, make_task: MakeTask):
    shown = seatrial("tasks", make_task("plain"), "--no-problems")
    assert shown.out.splitlines()[1].split(maxsplit=5) == ["plain", "-", "-", "none", "(default)", "no limit"]


def test_steps_are_counted(seatrial: Seatrial, make_task: MakeTask):
    steps = {"steps/one/instruction.md": "Do this.\n", "steps/two/instruction.md": "Do that.\n"}
    folder = make_task("two-steps", toml='[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n', files=steps)
    assert seatrial("tasks", folder).out.splitlines()[1].startswith("two-steps (2 steps)  ")


def test_broken_and_skipped_folders_are_shown_with_the_reason(seatrial: Seatrial, dataset: Path):
    shown = seatrial("tasks", dataset)
    assert shown.code == 0
    assert shown.err == "1 task, 2 broken, 1 skipped\n"
    lines = shown.out.splitlines()
    broken = next(line for line in lines if line.startswith("broken: "))
    assert "error[" in broken
    assert "task.toml: agent.timeout_sec: " in broken
    assert "-5" in broken
    bare = next(line for line in lines if line.startswith("bare: "))
    assert "error[no-task-toml] task.toml: " in bare
    assert f"{dataset / 'drafts'}: skipped: named like a template or draft; pass its path to load it" in lines


def test_problems_may_be_left_out(seatrial: Seatrial, dataset: Path):
    shown = seatrial("tasks", dataset, "--no-problems")
    assert [cells(line)[0] for line in shown.out.splitlines()] == ["task", "good"]
    assert shown.err == "1 task, 2 broken, 1 skipped\n"


def test_only_broken_tasks_make_no_table(seatrial: Seatrial, make_task: MakeTask, tmp_path: Path):
    make_task("broken", toml="not toml")
    shown = seatrial("tasks", tmp_path)
    assert "known by" not in shown.out
    assert shown.out.startswith("broken: error[")
    assert shown.err == "0 tasks, 1 broken, 0 skipped\n"


def test_json_has_everything_with_digests(seatrial: Seatrial, dataset: Path):
    shown = seatrial("tasks", dataset, "--json")
    document = json.loads(shown.out)
    assert shown.err == ""
    assert [task["id"] for task in document["tasks"]] == ["good"]
    assert document["tasks"][0] == {
        **load_task(dataset / "good").model_dump(mode="json"),
        "digest": digest_folder(dataset / "good"),
    }
    assert [task["id"] for task in document["broken"]] == ["bare", "broken"]
    assert document["broken"][1]["problems"][0]["key"] == "agent.timeout_sec"
    assert [folder["path"] for folder in document["skipped"]] == [str(dataset / "drafts")]


def test_a_terminal_gets_a_table():
    shown = on_terminal((*SEATRIAL, "tasks", str(EXAMPLES)))
    for mark in ("voltage-drop", "known by", str(EXAMPLES)):
        assert mark in shown


@pytest.mark.parametrize("flag", sampled(["--no-problems", "--json"]))
@pytest.mark.parametrize("locale", sampled(["C", "POSIX", "C.UTF-8"]))
def test_names_in_any_script_are_printed_in_any_locale(make_task: MakeTask, locale: str, flag: str):
    folder = make_task("größe-测试-😀", instruction="Write it to `/workspace/é.json`.\n")
    shown = start("tasks", folder, flag, LC_ALL=locale)
    assert shown.code == 0
    assert "größe-测试-😀" in shown.out
    assert "/workspace/é.json" in shown.out


@pytest.mark.parametrize("flag", ["--no-problems", "--json"])
def test_a_folder_whose_name_is_not_text_is_refused_not_printed(make_task: MakeTask, flag: str):
    folder = make_task("task")
    odd = folder.rename(folder.with_name(os.fsdecode(b"bad-\xff")))
    shown = start("tasks", odd, flag, PYTHONIOENCODING="utf-8:strict")
    assert "Traceback" not in shown.err
    assert "UTF-8" in shown.out + shown.err
