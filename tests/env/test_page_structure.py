"""The page of HarborEnv, sentence by sentence: task folders, test scripts, uploads and the agent's variables.

In real sandboxes, where it is about what an agent sees and a script does.
"""

import pytest

import seatrial as vf
from tests.env.worlds import (
    COLUMNS,
    REWARD_JSON,
    REWARD_TXT,
    echo,
    harbor_env,
    make_tasks,
    only,
    real_agent,
    record_of,
    world,
)
from tests.env.worlds import evaluate as evaluate_in_memory

RIGHT = "mkdir -p /app; echo right > /app/answer.txt"
FILES = {"solution/solve.sh": "#!/bin/sh\necho right > /app/answer.txt\n"}


def evaluate(desk, folder, command=RIGHT, kind=vf.HarborEnv, client=echo, **options):
    """One rollout in a real sandbox."""
    env = kind(command, folder, backend=desk.backend, **{"image": "host", **options})
    return only(desk.wait(env.evaluate(client, "gpt-4", state_columns=COLUMNS)))


def test_each_task_directory_follows_this_structure(desk, tmp_path):
    """task.toml, instruction.md, solution/ (uploaded after the agent runs), tests/ with test.sh."""
    output = evaluate(desk, make_tasks(tmp_path, "task_name_1", files=FILES))
    assert (output["task"], output["reward"], output["error"]) == ("task_name_1", 1.0, None)


def test_docker_image_in_task_toml_is_optional_and_overrides_the_default_image(desk, tmp_path):
    folder = make_tasks(
        tmp_path, toml='[environment]\nnetwork_mode = "no-network"\ndocker_image = "python:3.11-slim"\n'
    )
    output = evaluate(desk, folder, docker_image="ubuntu:24.04", image="auto")
    assert (output["docker_image"], output["image_used"], output["reward"]) == ("python:3.11-slim", "host", 1.0)


def test_additional_task_metadata_is_kept(tmp_path):
    folder = make_tasks(tmp_path, toml='[metadata]\nauthor = "me"\n[whatever]\nx = [1, 2]\n')
    config = only(evaluate_in_memory(harbor_env(folder)))["harbor_config"]
    assert (config["metadata"], config["whatever"]) == ({"author": "me"}, {"x": [1, 2]})


def script(body):
    return {"tests/test.sh": f"#!/bin/sh\n{body}\n"}


@pytest.mark.parametrize(
    ("body", "reward"),
    [
        ("grep -qx right /app/answer.txt && echo 0.75 > /logs/verifier/reward.txt", 0.75),
        (f"""grep -qx right /app/answer.txt && echo '{{"reward": 0.85}}' > {REWARD_JSON}""", 0.85),
        ("echo 0.5 > /logs/verifier/reward.txt; exit 3", 0.5),  # errors are logged but don't fail scoring
    ],
)
def test_the_test_script_executes_verification_logic_and_writes_the_reward(desk, tmp_path, body, reward):
    output = evaluate(desk, make_tasks(tmp_path, files=script(body)))
    assert (output["reward"], output["error"]) == (reward, None)


def test_a_test_script_that_fails_without_a_reward_is_logged(desk, tmp_path, caplog):
    output = evaluate(desk, make_tasks(tmp_path, files=script("exit 3")))
    assert (output["reward"], output["error"]) == (0.0, None)
    assert "the verifier wrote no reward file; the verifier exited with 3" in caplog.text


LOOK = "ls / /task /solution /tests 2>/dev/null | sort | tr '\\n' ' '; find / -xdev -name solve.sh 2>/dev/null"


def test_before_the_agent_only_instruction_md_and_task_toml_are_uploaded(desk, tmp_path):
    output = evaluate(desk, make_tasks(tmp_path, files=FILES), LOOK, network="none")
    found = output["agent_stdout"].split()
    assert {"instruction.md", "task.toml"} <= set(found)
    assert not {"tests", "solution", "test.sh", "solve.sh", "/tests:", "/solution:"} & set(found)


def test_after_the_agent_solution_and_tests_are_uploaded_before_running_verification(desk, tmp_path):
    compare = 'cmp "$(dirname "$0")/solution/solve.sh" /tests/solution/solve.sh && echo 1 > /logs/verifier/reward.txt'
    assert evaluate(desk, make_tasks(tmp_path, files={**FILES, **script(compare)}))["reward"] == 1.0


def test_agents_cannot_access_oracle_solutions_or_test_implementations(desk, tmp_path):
    """Not even a process that the agent leaves behind sees them, while the verifier does."""
    spy = "(while :; do cat /tests/solution/solve.sh >> /app/spied 2>/dev/null; echo >> /app/looked; done) &"
    looked = "rm -f /app/looked; until test -s /app/looked; do :; done"  # the second time, since we began
    judge = f"{looked}; {looked}; test -s /tests/solution/solve.sh && test ! -s /app/spied && echo 1 > {REWARD_TXT}"
    output = evaluate(desk, make_tasks(tmp_path, files={**FILES, **script(judge)}), f"mkdir -p /app; {spy}")
    assert output["reward"] == 1.0
    assert record_of(output).verifier_run.isolation == "guarded"


def test_the_agents_environment_variables(desk, tmp_path):
    output = evaluate(desk, make_tasks(tmp_path), "env; pwd; cat $HARBOR_INSTRUCTION_PATH")
    *lines, pwd, instruction = output["agent_stdout"].strip().splitlines()
    variables = dict(line.split("=", 1) for line in lines if "=" in line)
    assert variables["OPENAI_BASE_URL"] == output["interception_base_url"]
    assert variables["HARBOR_TASK_NAME"] == "task_1"
    assert variables["HARBOR_TASK_DIR"] == "/task"
    assert variables["HARBOR_INSTRUCTION_PATH"] == "/task/instruction.md"
    assert variables["AGENT_WORKDIR"] == pwd == "/app"
    assert variables["OPENAI_MODEL"] == "gpt-4"
    assert variables["ANTHROPIC_BASE_URL"] == variables["OPENAI_BASE_URL"].removesuffix("/v1")
    assert variables["OPENAI_API_KEY"] == variables["ANTHROPIC_API_KEY"]
    assert instruction == "Do it."


def test_the_model_variable_is_only_there_if_a_model_is_set_in_the_state(tmp_path):
    class Modelless(vf.HarborEnv):
        async def setup_state(self, state):
            state["model"] = ""
            return await super().setup_state(state)

    seen = []

    async def agent(spec, sandbox):
        seen.append("OPENAI_MODEL" in spec.env)

    only(evaluate_in_memory(harbor_env(make_tasks(tmp_path), Modelless, backend=world(agent))))
    assert seen == [False]


def test_the_base_url_is_for_api_interception(desk, tmp_path):
    work = "open('/app/answer.txt', 'w').write(ask('what?'))"
    output = evaluate(desk, make_tasks(tmp_path), real_agent(work), client=lambda messages: "right")
    assert (output["reward"], output["error"]) == (1.0, None)
    (turn,) = output["trajectory"]
    assert turn["prompt"] == [{"role": "user", "content": "what?"}]
    assert record_of(output).model_usage.calls == 1


def test_an_agent_workdir_that_the_image_does_not_have_is_made(desk, tmp_path):
    assert (
        evaluate(desk, make_tasks(tmp_path), "pwd", agent_workdir="/srv/deep/work")["agent_stdout"]
        == "/srv/deep/work\n"
    )
