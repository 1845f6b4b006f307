"""The page of HarborEnv, sentence by sentence: its key methods, and what they return."""

import asyncio
import inspect
import subprocess
import sys

import pytest

import seatrial as vf
from seatrial.env.rollout import new_state
from tests.env.worlds import REWARD_JSON, REWARD_TXT, evaluate, harbor_env, make_tasks, only, record_of, world


def annotation(method):
    return inspect.signature(method).return_annotation


def test_the_methods_have_these_signatures():
    for name, returns in [("get_docker_image", str), ("build_env_vars", dict[str, str]), ("compute_reward", float)]:
        method = getattr(vf.HarborEnv, name)
        assert inspect.iscoroutinefunction(method)
        assert list(inspect.signature(method).parameters) == ["self", "state"]
        assert annotation(method) == returns
    assert list(inspect.signature(vf.HarborEnv.load_harbor_dataset).parameters) == ["self"]
    assert annotation(vf.HarborEnv.load_harbor_dataset) == "Dataset"


def load(folder, **options):
    pytest.importorskip("datasets", reason="the package datasets is not installed")
    return harbor_env(folder, **options).load_harbor_dataset()


def test_load_harbor_dataset_loads_harbor_tasks_into_a_huggingface_dataset(tmp_path):
    dataset = load(make_tasks(tmp_path, "a", "b"))
    datasets = sys.modules["datasets"]
    assert isinstance(dataset, datasets.Dataset)
    assert len(dataset) == 2


def test_the_columns_are_example_id_task_prompt_and_info(tmp_path):
    dataset = load(make_tasks(tmp_path, "b", "a", instruction="Do it.\n"))
    assert dataset.column_names == ["example_id", "task", "prompt", "info"]
    assert dataset["example_id"][:] == [0, 1]  # sequential
    assert dataset["task"][:] == ["a", "b"]  # directory name
    assert dataset[0]["prompt"] == [{"role": "user", "content": "Do it."}]  # as messages


def test_info_is_task_metadata_including_task_dir_docker_image_and_config(tmp_path):
    make_tasks(tmp_path, toml='[environment]\ndocker_image = "python:3.12"\n')
    assert load(tmp_path)[0]["info"] == {
        "task_name": "task_1",
        "task_dir": str(tmp_path / "task_1"),
        "docker_image": "python:3.12",
        "config": {"environment": {"docker_image": "python:3.12"}},
    }


def test_tasks_whose_toml_types_differ_do_not_leak_into_each_other(tmp_path):
    """Neither a type error of the columns nor a None under a key of another task."""
    configs = {
        "a": '[metadata]\ndifficulty = 3\ntags = ["x"]\nwhen = 2024-05-01\n',
        "b": '[metadata]\ndifficulty = "hard"\ntags = [1, "two", { three = 3 }]\n',
        "c": "[metadata]\ndifficulty = { level = 1.5 }\n[extra]\nonly_here = true\n",
        "d": "",
    }
    for name, toml in configs.items():
        make_tasks(tmp_path, name, toml=toml, network="")
    expected = [
        {"metadata": {"difficulty": 3, "tags": ["x"], "when": "2024-05-01"}},
        {"metadata": {"difficulty": "hard", "tags": [1, "two", {"three": 3}]}},
        {"metadata": {"difficulty": {"level": 1.5}}, "extra": {"only_here": True}},
        {},
    ]
    assert [row["info"]["config"] for row in load(tmp_path)] == expected
    results = evaluate(harbor_env(tmp_path))
    assert [output["harbor_config"] for output in results["outputs"]] == expected


def test_rollouts_on_the_huggingface_dataset_are_the_same(tmp_path):
    folder = make_tasks(tmp_path, "a", "b", toml="[metadata]\nlevel = 1\n")
    results = evaluate(harbor_env(folder, dataset=load(folder)))
    assert [(output["task"], output["reward"]) for output in results["outputs"]] == [("a", 1.0), ("b", 1.0)]
    assert results["outputs"][0]["harbor_config"]["metadata"] == {"level": 1}


def test_an_override_of_load_harbor_dataset_says_what_is_rolled_out(tmp_path):
    class First(vf.HarborEnv):
        def load_harbor_dataset(self):
            return super().load_harbor_dataset().select([0])

    pytest.importorskip("datasets", reason="the package datasets is not installed")
    assert [row["task"] for row in harbor_env(make_tasks(tmp_path, "a", "b"), First).get_dataset()] == ["a"]


def test_without_the_package_the_method_says_what_to_install_and_everything_else_works(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    env = harbor_env(make_tasks(tmp_path))
    with pytest.raises(vf.UsageError, match=r"pip install 'seatrial\[hf\]'"):
        env.load_harbor_dataset()
    assert only(evaluate(env))["reward"] == 1.0


def test_the_package_is_loaded_by_nothing_else():
    code = "import seatrial as vf, sys; vf.HarborEnv; print('datasets' in sys.modules, 'aiohttp' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "False False\n"


def state_of(env, **row):
    return new_state({**env.get_dataset()[0], **row}, "gpt-4", None)


def test_get_docker_image_resolves_the_image_from_task_toml_or_falls_back_to_the_default(tmp_path):
    env = harbor_env(make_tasks(tmp_path), docker_image="mine")
    assert asyncio.run(env.get_docker_image(state_of(env))) == "mine"
    assert asyncio.run(env.get_docker_image(state_of(env, info={"docker_image": "theirs"}))) == "theirs"


def test_an_override_of_get_docker_image_decides_the_image(tmp_path):
    class Mine(vf.HarborEnv):
        async def get_docker_image(self, state):
            return f"registry/{state['task']}:1"

    backend = world()
    images = {"registry/*": str(tmp_path)}
    env = harbor_env(make_tasks(tmp_path / "tasks"), Mine, backend=backend, image="auto", image_map=images)
    output = only(evaluate(env))
    assert (output["docker_image"], output["image_used"]) == ("registry/task_1:1", str(tmp_path))
    assert backend.sandboxes[0].spec.image.layers == (tmp_path,)
    used = record_of(output).sandbox
    assert (used.image_asked, used.image) == ("registry/task_1:1", str(tmp_path))


def test_build_env_vars_builds_environment_variables_with_harbor_specific_additions(tmp_path):
    built = []

    class Kept(vf.HarborEnv):
        async def build_env_vars(self, state):
            built.append(await super().build_env_vars(state))
            return {**built[0], "MORE": "1"}

    async def agent(spec, sandbox):
        built.append(spec.env)

    only(evaluate(harbor_env(make_tasks(tmp_path), Kept, backend=world(agent))))
    for variables in built:
        assert variables["HARBOR_TASK_NAME"] == "task_1"
        assert variables["HARBOR_TASK_DIR"] == "/task"
        assert variables["HARBOR_INSTRUCTION_PATH"] == "/task/instruction.md"
        assert variables["AGENT_WORKDIR"] == "/app"
    assert built[1]["MORE"] == "1"


BOTH = {REWARD_TXT: b"0.3", REWARD_JSON: b'{"reward": 0.9}'}


@pytest.mark.parametrize(
    ("verdict", "reward"),
    [
        ({REWARD_TXT: b"0.3\n"}, 0.3),
        (BOTH, 0.3),  # reward.txt is preferred
        ({REWARD_JSON: b'{"reward": 0.9}'}, 0.9),  # reward.json is the fallback
    ],
)
def test_compute_reward_executes_tests_test_sh_and_extracts_the_reward(tmp_path, verdict, reward):
    backend = world(verdict=verdict)
    output = only(evaluate(harbor_env(make_tasks(tmp_path), backend=backend)))
    assert output["reward"] == output["evaluation"].reward == reward
    assert "/tests/test.sh" in backend.sandboxes[0].executed[-1].argv[-1]


def test_reward_files_that_disagree_are_told_of(tmp_path):
    output = only(evaluate(harbor_env(make_tasks(tmp_path), backend=world(verdict=BOTH))))
    assert any(line.startswith("reward_conflict: ") for line in output["evaluation"].validity.errors)
    assert record_of(output).provenance.reward_file == "reward.txt"


@pytest.mark.parametrize(("written", "reward"), [(b"0", 0.0), (b"1", 1.0), (b"1.5", 0.0), (b"-3", 0.0)])
def test_the_reward_value_is_between_0_and_1(tmp_path, written, reward):
    output = only(evaluate(harbor_env(make_tasks(tmp_path), backend=world(verdict={REWARD_TXT: written}))))
    assert output["reward"] == reward


def test_an_override_of_compute_reward_decides_the_reward(tmp_path):
    class Half(vf.HarborEnv):
        async def compute_reward(self, state):
            return 0.5 * await super().compute_reward(state)

    output = only(evaluate(harbor_env(make_tasks(tmp_path), Half)))
    assert (output["reward"], output["evaluation"].reward) == (0.5, 1.0)


def test_an_override_of_compute_reward_without_the_verifier_is_in_the_record(tmp_path):
    class Own(vf.HarborEnv):
        async def compute_reward(self, state):
            found = await self.sandbox_client.execute_command(state["sandbox_id"], "judge it")
            return float(found.stdout == "judge it")

    output = only(evaluate(harbor_env(make_tasks(tmp_path), Own)))
    assert (output["reward"], record_of(output).evaluation.reward, record_of(output).verifier_run) == (
        1.0,
        1.0,
        None,
    )
    assert "no verifier ran" in record_of(output).evaluation.validity.errors[0]


def test_functions_of_a_rubric_are_added_to_the_reward(tmp_path):
    async def length(completion):
        return len(completion)

    rubric = vf.Rubric([length], weights=[0.0])
    output = only(evaluate(harbor_env(make_tasks(tmp_path), rubric=rubric)))
    metrics = output["metrics"]
    assert (output["reward"], metrics["harbor_reward"], metrics["length"]) == (1.0, 1.0, 0.0)
    monitors = {"num_turns", "sandbox_oom", "sandbox_timeout", "agent_timeout", "agent_error"}
    assert {name: metrics[name] for name in monitors} == dict.fromkeys(monitors, 0.0)
    assert metrics.keys() == {"harbor_reward", "length", *monitors}


def test_variables_and_image_are_told_of_a_state_that_somebody_made(tmp_path):
    make_tasks(tmp_path, toml='[environment]\ndocker_image = "host"\n')
    env = harbor_env(tmp_path, docker_image="python:3.11", environment_vars={"MINE": "1"})
    state = vf.State(task="task_1", model="gpt-4", interception_base_url="http://127.0.0.1:9/v1")
    variables = asyncio.run(env.build_env_vars(state))
    assert variables["OPENAI_BASE_URL"] == state["interception_base_url"]
    assert (variables["OPENAI_MODEL"], variables["HARBOR_TASK_NAME"], variables["MINE"]) == ("gpt-4", "task_1", "1")
    assert asyncio.run(env.get_docker_image(vf.State(state))) == "host"
    alone = asyncio.run(env.build_env_vars(vf.State(info={"task_dir": str(tmp_path / "task_1")})))
    assert alone["HARBOR_TASK_NAME"] == "task_1"
    assert not {"OPENAI_BASE_URL", "OPENAI_MODEL"} & alone.keys()


@pytest.mark.parametrize("method", ["build_env_vars", "get_docker_image"])
def test_a_state_that_names_no_task_is_told_what_it_lacks(tmp_path, method):
    env = harbor_env(make_tasks(tmp_path))
    with pytest.raises(vf.UsageError, match=r"needs info\['task_dir'\].*its `task` is 'other'"):
        asyncio.run(getattr(env, method)({"task": "other"}))


def test_a_state_without_a_sandbox_is_not_judged_but_told_how_it_would_be(tmp_path):
    env = harbor_env(make_tasks(tmp_path))
    row = env.get_dataset()[0]
    for state in (vf.State(), vf.State(row), new_state(row, "m", None)):
        with pytest.raises(vf.HookError, match=r"has no sandbox.* `await env\.rollout\(row, client, model\)`"):
            asyncio.run(env.compute_reward(state))
    with pytest.raises(vf.UsageError, match=r"the state has no client, error, model: make it by .*init_state"):
        asyncio.run(env.setup_state(vf.State(row)))


def test_what_a_rollout_left_is_judged_once_and_known_afterwards(tmp_path):
    env = harbor_env(make_tasks(tmp_path), backend=world(verdict={REWARD_TXT: b"0.5"}))

    async def scenario():
        state = await env.rollout(env.get_dataset()[0], lambda messages: "", "m")
        return state["reward"], await env.compute_reward(state), state["error"], state["evaluation"].reward

    assert asyncio.run(scenario()) == (0.5, 0.5, None, 0.5)


def test_an_agent_that_may_still_be_at_work_is_not_judged(tmp_path):
    env = harbor_env(make_tasks(tmp_path))

    async def scenario():
        state = await env.init_state(env.get_dataset()[0], lambda messages: "", "m")
        await env.setup_state(state)
        try:
            with pytest.raises(vf.HookError, match="not before post_rollout"):
                await env.compute_reward(state)
            await env.post_rollout(state)
            return await env.compute_reward(state), state["error"]
        finally:
            await env.destroy_sandbox(state)

    assert asyncio.run(scenario()) == (1.0, None)


def test_a_state_is_made_with_any_client_that_is_open(tmp_path):
    env = harbor_env(make_tasks(tmp_path))
    with pytest.raises(vf.UsageError, match=r"ClientConfig, is not open: `async with .*open_client"):
        asyncio.run(env.init_state(env.get_dataset()[0], vf.ClientConfig(base_url="http://127.0.0.1:9/v1"), "m"))
