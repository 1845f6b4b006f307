"""The page of HarborEnv, sentence by sentence: what it is, what it does by itself, what it is made of."""

import inspect
import logging
from pathlib import Path

import pytest

import seatrial as vf
from seatrial.model.task import TaskConfig
from tests.env.worlds import COMMAND, ask, evaluate, harbor_env, make_tasks, only, world


def test_it_extends_cli_agent_env():
    assert vf.CliAgentEnv in vf.HarborEnv.__bases__


def test_it_runs_harbor_format_benchmark_tasks_with_automatic_task_loading_sandbox_management_and_test_execution(
    tmp_path,
):
    backend = world()
    results = evaluate(harbor_env(make_tasks(tmp_path, "a", "b"), backend=backend))
    assert [output["task"] for output in results["outputs"]] == ["a", "b"]
    assert [output["reward"] for output in results["outputs"]] == [1.0, 1.0]
    assert [sandbox.destroyed for sandbox in backend.sandboxes] == [True, True]


def test_it_loads_task_specifications_from_task_toml_and_instruction_md(tmp_path):
    folder = make_tasks(tmp_path, toml='[environment]\ndocker_image = "host"\n', instruction="Do this.\n")
    (row,) = harbor_env(folder).get_dataset()
    assert row["prompt"] == [{"role": "user", "content": "Do this."}]
    assert row["info"]["config"] == {"environment": {"docker_image": "host"}}


def test_it_manages_a_sandbox_per_task(tmp_path):
    backend = world()
    results = evaluate(harbor_env(make_tasks(tmp_path, "a", "b"), backend=backend), rollouts_per_example=2)
    assert len(backend.sandboxes) == len({output["sandbox_id"] for output in results["outputs"]}) == 4


def test_it_uploads_task_assets_and_test_suites(tmp_path):
    backend = world()
    only(evaluate(harbor_env(make_tasks(tmp_path), backend=backend)))
    assert {"/task/instruction.md", "/task/task.toml", "/tests/test.sh"} <= backend.sandboxes[0].files.keys()


def test_it_executes_verification_tests_and_computes_rewards(tmp_path):
    backend = world(verdict={"/logs/verifier/reward.txt": b"0.25"})
    assert only(evaluate(harbor_env(make_tasks(tmp_path), backend=backend)))["reward"] == 0.25
    assert [spec.phase for spec in backend.sandboxes[0].executed] == ["agent", "verifier"]


def test_the_inheritance_is_environment_multi_turn_env_cli_agent_env_harbor_env():
    chain = [kind for kind in vf.HarborEnv.__mro__ if issubclass(kind, vf.Environment)]
    assert chain == [vf.HarborEnv, vf.CliAgentEnv, vf.MultiTurnEnv, vf.Environment]


def test_the_constructor_has_these_names_and_defaults():
    signature = inspect.signature(vf.HarborEnv)
    names = list(signature.parameters)
    assert names[:5] == ["run_command", "dataset_path", "tasks", "agent_workdir", "docker_image"]
    assert names[-1] == "kwargs"
    empty = inspect.Parameter.empty
    defaults = [each.default for each in signature.parameters.values()]
    assert defaults[:5] == [empty, empty, None, "/app", "python:3.11-slim"]
    assert empty not in defaults[5:-1]
    assert signature.parameters["kwargs"].kind is inspect.Parameter.VAR_KEYWORD
    annotations = {name: each.annotation for name, each in signature.parameters.items()}
    assert annotations["run_command"] is str
    assert (annotations["dataset_path"], annotations["tasks"]) == (str | Path, list[str] | None)


def test_run_command_executes_the_agent_inside_the_sandbox(tmp_path):
    backend = world()
    only(evaluate(harbor_env(make_tasks(tmp_path), backend=backend)))
    assert backend.sandboxes[0].executed[0].argv == ("/bin/sh", "-c", COMMAND)


def test_run_command_and_dataset_path_are_required():
    with pytest.raises(TypeError, match="run_command"):
        vf.HarborEnv(dataset_path="x")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="dataset_path"):
        vf.HarborEnv("python agent.py")  # type: ignore[call-arg]


@pytest.mark.parametrize("kind", [str, Path])
def test_dataset_path_is_the_directory_containing_harbor_task_folders(tmp_path, kind):
    assert [row["task"] for row in harbor_env(kind(make_tasks(tmp_path, "b", "a"))).get_dataset()] == ["a", "b"]


@pytest.mark.parametrize("missing", ["task.toml", "instruction.md"])
def test_each_task_folder_must_contain_task_toml_and_instruction_md(tmp_path, missing, caplog):
    make_tasks(tmp_path, "whole", "broken")
    (tmp_path / "broken" / missing).unlink()
    with caplog.at_level(logging.WARNING):
        env = harbor_env(tmp_path)
    assert [row["task"] for row in env.get_dataset()] == ["whole"]
    assert "broken is left out" in caplog.text
    assert missing in caplog.text
    with pytest.raises(vf.TaskFormatError, match=missing.replace(".", r"\.")):
        harbor_env(tmp_path, tasks=["broken"])


def test_tasks_are_specific_task_names_to_load(tmp_path):
    folder = make_tasks(tmp_path, "a", "b", "c")
    assert [row["task"] for row in harbor_env(folder, tasks=["c", "a"]).get_dataset()] == ["a", "c"]


def test_if_tasks_is_none_all_tasks_found_in_dataset_path_are_loaded(tmp_path):
    assert len(harbor_env(make_tasks(tmp_path, "a", "b", "c"), tasks=None).get_dataset()) == 3


def test_a_task_name_that_there_is_not_is_an_error_with_near_misses(tmp_path):
    folder = make_tasks(tmp_path, "sort-lines", "add")
    with pytest.raises(vf.DatasetNotFoundError, match="no task 'sort-line'; did you mean sort-lines"):
        harbor_env(folder, tasks=["add", "sort-line"])
    with pytest.raises(vf.DatasetNotFoundError, match="there are: add, sort-lines"):
        harbor_env(folder, tasks=["zzz"])


def test_a_dataset_path_that_is_not_there_or_has_no_task_is_an_error(tmp_path):
    with pytest.raises(vf.DatasetNotFoundError, match="no such file or folder"):
        harbor_env(tmp_path / "nowhere")
    with pytest.raises(vf.DatasetNotFoundError, match=r"no folder with a task\.toml"):
        harbor_env(tmp_path)


def test_the_prompt_of_a_task_with_steps_is_the_instruction_of_its_first_one(tmp_path):
    make_tasks(tmp_path, "plain")
    make_tasks(tmp_path, "steps", toml='[[steps]]\nname = "one"\n', files={"steps/one/instruction.md": "Do.\n"})
    rows = harbor_env(tmp_path).get_dataset()
    assert [(row["task"], row["prompt"][0]["content"]) for row in rows] == [("plain", "Do it."), ("steps", "Do.")]


def test_agent_workdir_is_the_working_directory_of_the_agent_inside_the_sandbox(tmp_path):
    seen = []

    async def agent(spec, sandbox):
        seen.extend([spec.cwd, spec.env["AGENT_WORKDIR"]])

    only(evaluate(harbor_env(make_tasks(tmp_path), backend=world(agent), agent_workdir="/srv/work")))
    assert seen == ["/srv/work", "/srv/work"]


def test_docker_image_is_the_default_image_and_can_be_overridden_per_task_via_task_toml(tmp_path):
    make_tasks(tmp_path, "a")
    make_tasks(tmp_path, "b", toml='[environment]\ndocker_image = "python:3.12"\n')
    results = evaluate(harbor_env(tmp_path, docker_image="python:3.10"))
    assert [output["docker_image"] for output in results["outputs"]] == ["python:3.10", "python:3.12"]


def test_additional_arguments_are_passed_to_cli_agent_env(tmp_path):
    backend = world()
    folder = make_tasks(tmp_path, toml="[environment]\ncpus = 1\nmemory_mb = 100\n")
    env = harbor_env(
        folder, backend=backend, max_turns=20, timeout_seconds=300, cpu_cores=2, environment_vars={"X": "1"}
    )
    only(evaluate(env))
    (sandbox,) = backend.sandboxes
    assert (env.max_turns, env.timeout_seconds) == (20, 300)
    assert (sandbox.spec.limits.cpus, sandbox.spec.limits.memory_mb) == (2, 100)
    assert sandbox.executed[0].env["X"] == "1"
    with pytest.raises(vf.UnknownArgumentError, match="did you mean timeout_seconds"):
        harbor_env(folder, timeout_second=3)


def test_without_timeout_seconds_an_agent_has_the_time_of_its_task_or_an_hour(tmp_path):
    make_tasks(tmp_path, "a", toml="[agent]\ntimeout_sec = 77\n")
    make_tasks(tmp_path, "b")
    backend = world()
    evaluate(harbor_env(tmp_path, backend=backend), max_concurrent=1)
    assert [sandbox.executed[0].timeout_sec for sandbox in backend.sandboxes] == [77, 3600]


def test_max_turns_of_a_task_is_the_number_of_model_calls(tmp_path):
    async def agent(spec, sandbox):
        for number in range(3):
            await ask(spec, str(number))

    output = only(evaluate(harbor_env(make_tasks(tmp_path), backend=world(agent), max_turns=2)))
    assert (len(output["trajectory"]), output["stop_condition"], output["reward"]) == (2, "max_turns_reached", 1.0)


def test_the_task_itself_is_not_changed_by_what_the_environment_says_instead(tmp_path):
    env = harbor_env(make_tasks(tmp_path), cpu_cores=2)
    only(evaluate(env))
    (task,) = env._known_tasks.tasks.values()
    assert task.config.environment.cpus is None
    assert isinstance(task.config, TaskConfig)
