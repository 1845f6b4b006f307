"""What a command line asks for: a job, its folder, and agents: each command, and each agent with each model, is one."""

import json
from pathlib import Path

import pytest

from seatrial.cli.job_options import resumed_job_options
from seatrial.cli.job_spec import agents_asked, changed_job
from seatrial.errors import JobError
from seatrial.model.job import AgentOptions, JobSpec
from tests.agents.test_presets import MINIMAL
from tests.cli_words import new, parse


def test_nothing_but_the_defaults_of_a_job_without_options(tmp_path):
    spec, _ = new("-p", tmp_path, "-a", "noop", "-o", tmp_path / "j")
    assert spec == JobSpec(name="j", tasks=(str(tmp_path),), agents=(AgentOptions(name="noop"),))


def test_a_shuffle_without_a_seed_draws_one_and_keeps_it(tmp_path):
    seed = new("-p", tmp_path, "-a", "noop", "--shuffle")[0].run.shuffle_seed
    assert isinstance(seed, int)


@pytest.mark.parametrize(
    ("options", "folder"),
    [
        (["--jobs-dir", "d", "--job-name", "n"], "d/n"),
        (["--job-name", "n"], "jobs/n"),
        (["-o", "x/y"], "x/y"),
    ],
)
def test_where_a_job_goes(options, folder, tmp_path):
    spec, place = new("-p", tmp_path, "-a", "noop", *options)
    assert (spec.name, place) == (folder.rpartition("/")[2], Path(folder))


def test_a_folder_of_jobs_alone_holds_a_job_of_this_moment(tmp_path):
    spec, place = new("-p", tmp_path, "-a", "noop", "--jobs-dir", tmp_path / "d")
    assert (place.parent, place.name) == (tmp_path / "d", spec.name)
    with pytest.raises(JobError, match="-o names the job's own folder"):
        new("-p", tmp_path, "-a", "noop", "--jobs-dir", "d", "-o", "e")


STORED = JobSpec(name="j", tasks=("/a",), agents=(AgentOptions(name="noop"),), attempts=2)


def test_resuming_without_options_is_the_same_job():
    assert changed_job(STORED, parse(resumed_job_options)) == STORED


def test_a_model_without_agents_to_add_is_refused():
    with pytest.raises(JobError, match="give -a or --command too"):
        changed_job(STORED, parse(resumed_job_options, "-m", "large"))


def test_resuming_adds_tasks_and_agents_and_replaces_numbers():
    options = parse(resumed_job_options, *["-p", "/a", "-p", "/b", "-a", "oracle", "-k", 5, "-n", 3, "--retries", 1])
    spec = changed_job(STORED, options)
    assert spec.tasks == ("/a", "/b")
    assert [agent.name for agent in spec.agents] == ["noop", "oracle"]
    assert (spec.attempts, spec.run.concurrent, spec.run.retries) == (5, 3, 1)


def titles(**options) -> list[tuple[str, str | None, str | None]]:
    agents = [AgentOptions(**agent) for agent in agents_asked(options, options.pop("of_file", None))]
    return [(agent.title, agent.command, agent.model) for agent in agents]


def test_each_agent_runs_with_each_model_and_those_without_one_run_once():
    assert titles(agents=("oracle", "mine", "nop"), models=("a", "b")) == [
        ("oracle", None, None),
        ("mine-a", None, "a"),
        ("mine-b", None, "b"),
        ("nop", None, None),
    ]


def test_each_command_is_an_agent_named_after_its_script():
    commands = ("python3 /agent/fast.py -v", "bash /agent/slow.sh", "/x/fast.py", "mini-agent --yolo", "é")
    assert [title for title, _, _ in titles(commands=commands)] == ["fast", "slow", "fast-2", "mini-agent", "command"]


def test_one_command_is_called_command():
    assert titles(commands=("run me",), agents=("command",)) == [("command", "run me", None)]


@pytest.mark.parametrize(
    "options", [{"agents": ("noop", "noop")}, {"commands": ("x", "x")}, {"commands": ("x",), "models": ("a", "a")}]
)
def test_the_same_agent_twice_is_not_one_in_silence(options):
    (first, _), (second, _) = [(title, command) for title, command, _ in titles(**options)]
    assert first == second  # which no job may have


def test_commands_and_models_multiply():
    found = titles(commands=("a.py", "b.py"), models=("x", "y"))
    assert [title for title, _, _ in found] == ["a-x", "a-y", "b-x", "b-y"]


def test_what_is_said_about_agents_goes_to_those_of_a_job_file():
    of_file = [{"name": "command", "command": "x", "env": {"A": "1"}}]
    layer = {"source": "/tree"}
    (layered,) = agents_asked({"commands": ("x",), "agent_layer": layer}, None)
    assert layered["layer"] == layer
    (agent,) = agents_asked({"agent_env": {"B": "2"}, "agent_setup": "install"}, of_file)
    assert agent == {"name": "command", "command": "x", "env": {"A": "1", "B": "2"}, "setup": "install"}


def test_what_is_said_about_no_agent_is_refused():
    with pytest.raises(JobError, match=r"--agent-env and --agent-setup: .*; give its --command too"):
        agents_asked({"agents": ("oracle",), "agent_setup": "install", "agent_env": {"A": "1"}}, None)


def test_oracle_and_noop_need_none_of_it():
    options = {"agents": ("oracle", "nop"), "commands": ("x",), "agent_files": ({"source": "y"},), "agent_setup": "z"}
    oracle, nop, own = agents_asked(options, None)
    assert (oracle, nop) == ({"name": "oracle"}, {"name": "nop"})
    assert own == {"name": "command", "command": "x", "files": ({"source": "y"},), "setup": "z"}


def test_an_agent_may_have_a_version_and_options():
    (agent,) = agents_asked({"agents": ("codex@0.1.0",), "agent_options": {"effort": "high"}}, None)
    assert agent == {"name": "codex", "version": "0.1.0", "options": {"effort": "high"}}
    for odd in ("codex@", "@1"):
        with pytest.raises(JobError, match="expected NAME or NAME@VERSION"):
            agents_asked({"agents": (odd,)}, None)


def test_a_preset_of_a_folder_is_taken_from_there(tmp_path):
    (tmp_path / "codex.toml").write_text(MINIMAL)
    (agent,) = agents_asked({"agents": ("codex",), "agents_dir": tmp_path}, None)
    made = AgentOptions.model_validate_json(json.dumps(agent))
    assert made.preset is not None
    assert (made.preset["title"], made.preset["source"]) == ("Mine", str(tmp_path / "codex.toml"))
    assert agents_asked({"agents": ("pi",), "agents_dir": tmp_path}, None) == [{"name": "pi"}]
    (tmp_path / "codex.toml").write_text(f'{MINIMAL}aliases = ["mine"]\n')
    (agent,) = agents_asked({"agents": ("mine",), "agents_dir": tmp_path}, None)
    assert agent["preset"]["name"] == "codex"


def test_versions_of_one_agent_are_told_apart():
    assert [title for title, _, _ in titles(agents=("pi", "pi@1.0", "pi@2.0"))] == ["pi", "pi-1.0", "pi-2.0"]
    assert [title for title, _, _ in titles(agents=("pi@1.0", "codex@1.0"))] == ["pi", "codex"]


def test_what_has_no_versions_is_not_asked_for_one():
    with pytest.raises(JobError, match="-a oracle@1: oracle comes with Seatrial and has no versions"):
        agents_asked({"agents": ("oracle@1",)}, None)
