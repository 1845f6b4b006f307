"""A task as checks see it: the tests that are laid over each other, small ones only, and what a user calls it."""

from pathlib import Path

import pytest

from seatrial.check.prepare import AGENTS, choose
from seatrial.check.subject import small_files
from seatrial.errors import JobError
from seatrial.model.job import AgentOptions, JobSpec, TrialOptions
from tests.trial.support import write_task


def test_later_folders_lie_over_earlier_ones_and_large_files_are_left_out(tmp_path):
    for path, content in {"a/x.py": "1", "a/deep/y.py": "2", "b/x.py": "3", "b/large": "x" * 600_000}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content)
    (tmp_path / "a/link.py").symlink_to("/etc/passwd")
    assert small_files([tmp_path / "a", tmp_path / "b"]) == {"x.py": b"3", "deep/y.py": b"2"}


def test_there_is_an_end_to_them(tmp_path):
    for number in range(20):
        (tmp_path / f"{number:02}").write_bytes(b"x" * 500_000)
    assert len(small_files([tmp_path])) == 16


def spec(*paths: Path, **others) -> JobSpec:
    agents = tuple(AgentOptions(name=name) for name in AGENTS)
    tasks = tuple(str(path.absolute()) for path in paths)
    return JobSpec(name="check", tasks=tasks, agents=agents, trial=TrialOptions(image="host"), **others)


@pytest.mark.parametrize(
    ("given", "name"),
    [("sets", "sets/deep/one"), ("./sets/deep", "sets/deep/one"), ("sets/deep/one/", "sets/deep/one")],
)
def test_a_task_is_called_by_what_the_user_wrote(tmp_path, monkeypatch, given, name):
    monkeypatch.chdir(tmp_path)
    write_task(Path("sets/deep/one"))
    assert [task.name for task in choose(spec(Path(given)), [given]).tasks] == [name]


@pytest.mark.parametrize("given", [".", "./-one"])
def test_no_task_is_called_like_an_option(tmp_path, monkeypatch, given):
    monkeypatch.chdir(tmp_path)
    write_task(Path("-one"))
    assert [task.name for task in choose(spec(Path(given)), [given]).tasks] == ["./-one"]


def test_tasks_without_a_solution_are_checked_and_those_that_cannot_be_are_told(tmp_path):
    write_task(tmp_path / "one")
    write_task(tmp_path / "broken", toml="[agent]\ntimeout_sec = 'soon'\n")
    write_task(tmp_path / "windows", toml='[environment]\nos = "windows"\nnetwork_mode = "no-network"\n')
    chosen = choose(spec(tmp_path), [str(tmp_path)])
    assert [task.outline.id for task in chosen.tasks] == ["one"]
    assert {each.task: each.kind for each in chosen.left_out} == {"broken": "unreadable", "windows": "refused"}
    assert len(chosen.notices) >= 2


def test_tasks_that_ask_for_a_providers_key_are_told_and_the_others_checked(tmp_path):
    write_task(tmp_path / "one")
    solved = {"solution/solve.sh": "#!/bin/sh\n"}
    write_task(tmp_path / "judged", toml='[verifier.env]\nJUDGE = "${OPENAI_API_KEY}"\n')
    write_task(tmp_path / "solved", toml='[solution.env]\nJUDGE = "${OPENAI_API_KEY}"\n', files=solved)
    chosen = choose(spec(tmp_path), [str(tmp_path)])
    assert [task.outline.id for task in chosen.tasks] == ["one"]
    assert {each.task for each in chosen.left_out} == {"judged", "solved"}


def test_nothing_to_check_is_refused(tmp_path):
    write_task(tmp_path / "one", toml='[environment]\nos = "windows"\nnetwork_mode = "no-network"\n')
    with pytest.raises(JobError, match="none of the chosen tasks can be run"):
        choose(spec(tmp_path), [str(tmp_path)])
