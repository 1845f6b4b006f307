"""The images of HarborEnv's rollouts: the one resolver of trials gets them, with what the environment says."""

import pytest

import seatrial as vf
from tests.env.worlds import COLUMNS, REWARD_TXT, evaluate, harbor_env, make_tasks, only, record_of

DOCKERFILE = {"environment/Dockerfile": "FROM python:3.11-slim\nRUN echo built > /built\nWORKDIR /srv\n"}
JUDGE = {"tests/test.sh": f"#!/bin/sh\ngrep -qx built /built && echo 1 > {REWARD_TXT}\n"}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A store of images that is gone after the test."""
    monkeypatch.setenv("SEATRIAL_CACHE", str(tmp_path / "cache"))


def test_a_task_with_a_dockerfile_and_no_image_is_built_from_it(desk, tmp_path, cache):
    folder = make_tasks(tmp_path / "tasks", files={**DOCKERFILE, **JUDGE})
    env = vf.HarborEnv("cat /built; pwd", folder, backend=desk.backend, image_map={"python:*": "host"})
    output = only(desk.wait(env.evaluate(lambda messages: "x", "m", state_columns=COLUMNS)))
    assert (output["error"], output["agent_stdout"], output["reward"]) == (None, "built\n/app\n", 1.0)
    assert output["docker_image"].endswith("environment/Dockerfile")
    assert output["image_used"] != "host"


def test_where_nothing_is_built_such_a_task_is_an_error_unless_it_may_run_elsewhere(tmp_path):
    folder = make_tasks(tmp_path, files=DOCKERFILE)
    assert "builds no images" in only(evaluate(harbor_env(folder, image="auto")))["error"]["message"]
    assert only(evaluate(harbor_env(folder, image="host")))["reward"] == 1.0


def test_an_image_that_a_hook_chooses_goes_before_the_dockerfile(tmp_path):
    class Chosen(vf.HarborEnv):
        async def get_docker_image(self, state):
            return "host"

    output = only(evaluate(harbor_env(make_tasks(tmp_path, files=DOCKERFILE), Chosen, image="auto")))
    assert (output["docker_image"], output["image_used"], output["error"]) == ("host", "host", None)


@pytest.mark.parametrize("name", ["host", "/etc"])
def test_a_folder_is_for_the_program_to_name_and_not_for_a_task(tmp_path, name):
    toml = f'[environment]\ndocker_image = "{name}"\n'
    output = only(evaluate(harbor_env(make_tasks(tmp_path / "a", toml=toml), image="auto")))
    assert f"{name!r} is" in output["error"]["message"]
    assert "no task may name" in output["error"]["message"]
    allowed = only(evaluate(harbor_env(make_tasks(tmp_path / "b", toml=toml), image="auto", docker_image=name)))
    default = only(evaluate(harbor_env(make_tasks(tmp_path / "c"), image="auto", docker_image=name)))
    assert [(each["error"], each["image_used"]) for each in (allowed, default)] == [(None, name)] * 2


def test_an_image_that_cannot_be_fetched_is_an_error_of_the_rollout(desk, tmp_path, cache):
    env = vf.HarborEnv("true", make_tasks(tmp_path / "tasks"), backend=desk.backend, docker_image="nobody/none:7")
    output = only(desk.wait(env.evaluate(lambda messages: "x", "m", state_columns=COLUMNS)))
    assert (output["reward"], output["error"]["kind"]) == (None, "infrastructure")
    assert "nobody/none:7" in output["error"]["message"]
    assert record_of(output).outcome == "infrastructure_error"
