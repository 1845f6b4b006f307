"""Agents as a job stores them: files pinned down, and what is wrong with them said before the start."""

import pytest

from seatrial.errors import JobError
from seatrial.jobs.agents import changed_agents, locked_agent, with_locked_agents
from seatrial.model.job import AgentFiles, AgentOptions, JobSpec, TrialOptions


def command(*files: AgentFiles, text: str = "true") -> AgentOptions:
    return AgentOptions(name="command", command=text, files=files)


def test_files_get_a_whole_path_and_a_digest_once(tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text("1")
    monkeypatch.chdir(tmp_path)
    agent = locked_agent(command(AgentFiles(source="a.py")))
    assert agent.files[0].source == str(tmp_path / "a.py")
    assert changed_agents([agent]) == []
    (tmp_path / "a.py").write_text("2")
    assert locked_agent(agent) == agent
    assert changed_agents([agent]) == [f"agents.command.files: {tmp_path}/a.py has changed, or is not there any more"]


def test_two_folders_cannot_lie_in_one_place_but_files_can(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / f"{name}.py").write_text(name)
    files = [AgentFiles(source=str(tmp_path / name)) for name in ("one.py", "two.py", "one")]
    assert len(locked_agent(command(*files)).files) == 3
    with pytest.raises(JobError, match=r"more than one folder goes to /agent; .*two:/agent-2"):
        locked_agent(command(*files, AgentFiles(source=str(tmp_path / "two"))))


def test_commands_of_this_machine_are_fine_where_they_run_on_it(tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text("")
    monkeypatch.chdir(tmp_path)
    spec = JobSpec(name="j", tasks=("/t",), agents=(command(text="python3 a.py"),))
    with pytest.raises(JobError, match=r"a\.py is on this machine"):
        with_locked_agents(spec)
    assert with_locked_agents(spec.model_copy(update={"trial": TrialOptions(backend="local")})).agents


def test_where_there_are_no_images_no_tree_can_be_laid_over_one():
    preset = AgentOptions(name="claude-code", model="m")
    spec = JobSpec(name="j", tasks=("/t",), agents=(preset,), trial=TrialOptions(backend="local"))
    with pytest.raises(JobError, match=r"'claude-code' runs from a tree .* the local backend has no images"):
        with_locked_agents(spec)
