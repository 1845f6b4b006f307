"""The agents that come with us: what they lay out and run, and which options they refuse."""

from dataclasses import replace
from pathlib import Path

import pytest

from seatrial.agents.api import ENTRY_POINTS, AgentContext, make_agent, why_declined
from seatrial.agents.builtin import NoopAgent
from seatrial.agents.environ import agent_variables
from seatrial.errors import AgentSetupError, UsageError
from seatrial.model.job import AgentOptions
from seatrial.plugins import plugin_names
from seatrial.tasks.load import load_task, read_folder
from seatrial.tasks.outline import TaskOutline
from tests.sandbox.embedded.support import needs_python, needs_root
from tests.trial.support import ANSWER, open_desk, write_task


def context(root: Path, host: dict[str, str] | None = None) -> AgentContext:
    return AgentContext(load_task(root), None, "/app", host or {})


def test_ours_are_registered_like_those_of_strangers():
    assert {"command", "noop", "oracle"} <= set(plugin_names(ENTRY_POINTS))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (AgentOptions(name="command"), "needs a command"),
        (AgentOptions(name="command", command="  "), "needs a command"),
        (AgentOptions(name="noop", command="x"), "takes no command"),
        (AgentOptions(name="oracle", command="x"), "takes no command"),
        (AgentOptions(name="nobody"), "there is no agent called 'nobody'; there are: .*oracle"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, said):
    with pytest.raises(UsageError, match=said):
        make_agent(options)


def test_records_name_an_agent_by_its_label():
    agent = make_agent(AgentOptions(name="command", label="mine", command="run me", model="m"))
    assert (agent.ref.name, agent.ref.command, agent.ref.model) == ("mine", "run me", "m")
    assert make_agent(AgentOptions(name="noop")).ref.name == "noop"
    assert make_agent(AgentOptions(name="oracle", label="truth")).ref.name == "truth"


def test_a_command_runs_in_a_shell_with_its_variables(tmp_path):
    agent = make_agent(AgentOptions(name="command", command="a | b", env={"KEY": "${TOKEN}", "MODE": "fast"}))
    launch = agent.prepare(context(write_task(tmp_path / "task"), {"TOKEN": "t"}))
    assert launch is not None
    assert launch.argv == ("/bin/sh", "-c", "a | b")
    assert (launch.env, launch.trees) == ({"KEY": "t", "MODE": "fast"}, {})
    assert agent.templates(load_task(tmp_path / "task").config) == {"KEY": "${TOKEN}", "MODE": "fast"}
    with pytest.raises(UsageError, match="TOKEN"):
        agent.prepare(context(tmp_path / "task"))


def test_doing_nothing_needs_nothing(tmp_path):
    agent = make_agent(AgentOptions(name="noop"))
    assert agent.prepare(context(write_task(tmp_path / "task"))) is None
    assert agent.templates(load_task(tmp_path / "task").config) == {}


def test_the_oracle_brings_the_solution_along(tmp_path):
    root = write_task(tmp_path / "task", files={"solution/solve.sh": "true\n"}, toml="[solution.env]\nA = '${B:-c}'\n")
    agent = make_agent(AgentOptions(name="oracle"))
    launch = agent.prepare(context(root))
    assert launch is not None
    assert (launch.trees, launch.env) == ({"/solution": root / "solution"}, {"A": "c"})
    assert agent.templates(load_task(root).config) == {"A": "${B:-c}"}


def test_a_solution_takes_only_variables_that_were_allowed(tmp_path):
    root = write_task(tmp_path / "task", files={"solution/solve.sh": "true\n"}, toml="[solution.env]\nA = '${B:-c}'\n")
    agent = make_agent(AgentOptions(name="oracle"))
    denied = agent.prepare(context(root, {"B": "secret"}))
    allowed = agent.prepare(replace(context(root, {"B": "secret"}), allowed_env={"B": "given"}))
    assert denied is not None
    assert allowed is not None
    assert (denied.env, allowed.env) == ({"A": "c"}, {"A": "given"})


def test_without_a_solution_there_is_nothing_for_the_oracle_to_do(tmp_path):
    agent = make_agent(AgentOptions(name="oracle"))
    with pytest.raises(AgentSetupError, match="the task has no solution"):
        agent.prepare(context(write_task(tmp_path / "task")))
    assert not AgentSetupError.retryable


def test_the_oracle_of_a_step_runs_the_solution_of_that_step(tmp_path):
    files = {f"steps/{name}/instruction.md": "Do.\n" for name in ("one", "two")}
    toml = '[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n'
    root = write_task(tmp_path / "task", toml=toml, files={**files, "steps/one/solution/solve.sh": "true\n"})
    task, agent = load_task(root), make_agent(AgentOptions(name="oracle"))
    launch = agent.prepare(AgentContext(task, task.steps[0], "/app", {}))
    assert launch is not None
    assert launch.trees == {"/solution": root / "steps/one/solution"}
    with pytest.raises(AgentSetupError, match="step 'two' has no solution"):
        agent.prepare(AgentContext(task, task.steps[1], "/app", {}))


def outline(root):
    found = read_folder(root, root.name)
    assert isinstance(found, TaskOutline)
    return found


def test_the_oracle_declines_what_has_no_solution(tmp_path):
    oracle = make_agent(AgentOptions(name="oracle"))
    solved = outline(write_task(tmp_path / "solved", files={"solution/solve.py": ""}))
    bare = outline(write_task(tmp_path / "bare"))
    assert (why_declined(oracle, solved), why_declined(oracle, bare)) == (None, "no solution")
    assert why_declined(make_agent(AgentOptions(name="noop")), bare) is None


@pytest.mark.parametrize(("solved", "reason"), [(("one",), "a step without a solution"), (("one", "two"), None)])
def test_the_oracle_wants_a_solution_for_every_step(tmp_path, solved, reason):
    files = {f"steps/{name}/instruction.md": "Do.\n" for name in ("one", "two")}
    files |= {f"steps/{name}/solution/solve.sh": "true\n" for name in solved}
    toml = '[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n'
    task = outline(write_task(tmp_path / "task", toml=toml, files={**files, "solution/solve.sh": "true\n"}))
    assert why_declined(make_agent(AgentOptions(name="oracle")), task) == reason


def test_an_agent_that_fails_to_say_is_named(tmp_path):
    class Nervous(NoopAgent):
        def declines(self, _task):
            raise KeyError("mood")

    with pytest.raises(UsageError, match="the agent 'noop' failed on task: KeyError: 'mood'"):
        why_declined(Nervous(AgentOptions(name="noop")), outline(write_task(tmp_path / "task")))


def test_a_model_is_named_only_when_there_is_one(tmp_path):
    task = load_task(write_task(tmp_path / "task"))
    assert "OPENAI_MODEL" not in agent_variables(task, "/app", None)
    named = agent_variables(task, "/place", "m")
    assert {named[f"{kind}_MODEL"] for kind in ("OPENAI", "ANTHROPIC", "ANTHROPIC_DEFAULT_HAIKU", "GEMINI")} == {"m"}
    assert named["LLM_MODEL"] == "openai/m"
    assert agent_variables(task, "/place", "m")["AGENT_WORKDIR"] == "/place"


@needs_root
@needs_python
@pytest.mark.parametrize(
    ("name", "solution"),
    [
        ("solve.sh", f"echo right > {ANSWER}\n"),
        ("solve.sh", f"#!/bin/bash\ncat $(dirname $0)/data > {ANSWER}\n"),
        ("solve.py", f"import pathlib, sys\npathlib.Path('{ANSWER}').write_text('right')\n"),
    ],
)
def test_solutions_in_a_sandbox(tmp_path, name, solution):
    root = write_task(tmp_path / "task", files={f"solution/{name}": solution, "solution/data": "right\n"})
    with open_desk(tmp_path) as desk:
        ran = desk.run(root, "oracle")
    assert (ran.agent.exit_code, ran.reward, ran.record.agent.name) == (0, 1.0, "oracle")


@needs_root
def test_an_oracle_without_a_solution_fails_before_it_starts(tmp_path):
    with open_desk(tmp_path) as desk:
        ran = desk.run(write_task(tmp_path / "task"), "oracle")
    assert (ran.failure.phase, ran.failure.cause, ran.failure.retryable) == ("setup", "AgentSetupError", False)
