"""A task with steps is one rollout: each step has a reward, and together they are what `seatrial run` gives."""

import pytest

import seatrial as vf
from seatrial.errors import SandboxError
from seatrial.testing.fake import answer
from tests.conftest import sampled
from tests.env.worlds import COLUMNS, ask, echo, evaluate, harbor_env, only, record_of, world
from tests.trial.support import Desk, write_task
from tests.trial.test_steps import GIVE, ROOT_TEST, WRITE, steps_toml

FILES = {
    "tests/test.sh": ROOT_TEST,
    "steps/one/instruction.md": "one",
    "steps/two/instruction.md": "two",
    "steps/one/tests/reward.sh": GIVE,
    "steps/two/tests/reward.sh": GIVE,
}
STATE = ("step", "step_rewards", *COLUMNS)


def make_steps(folder, strategy="mean", first=""):
    return write_task(folder / "stepped", toml=steps_toml(first, strategy=strategy), files=FILES, instruction=None)


@pytest.mark.parametrize(
    ("strategy", "first", "rewards", "reward"),
    sampled(
        [
            ("mean", "", {"one": 0.5, "two": 1.0}, 0.75),
            ("final", "", {"one": 0.5, "two": 1.0}, 1.0),
            ("mean", "min_reward = 0.6", {"one": 0.5}, 0.5),
        ]
    ),
)
def test_the_reward_is_the_one_that_a_job_gives(desk: Desk, tmp_path, strategy, first, rewards, reward):
    task = make_steps(tmp_path, strategy, first)
    command = WRITE.format(first='{"reward": 0.5}', second='{"reward": 1}')
    job = desk.run(task, command)
    env = vf.HarborEnv(command, tmp_path, backend=desk.backend, image="host")
    output = only(desk.wait(env.evaluate(echo, "m", state_columns=STATE, retries=0)))
    assert (output["error"], output["reward"], output["step_rewards"]) == (None, reward, rewards)
    record = record_of(output)
    assert output["reward"] == record.evaluation.reward == job.reward
    assert output["evaluation"].breakdown == job.evaluation.breakdown
    assert [step.name for step in record.steps] == [step.name for step in job.record.steps]
    assert output["agent_stdout"] == f"worked on {list(rewards)[-1]}\n"


async def asking(spec, sandbox):
    return answer(str(await ask(spec, sandbox.files["/task/instruction.md"].decode())))


def test_turns_of_all_steps_are_one_trajectory_and_max_turns_counts_in_each(tmp_path):
    make_steps(tmp_path)
    built = []

    class Seen(vf.HarborEnv):
        async def build_env_vars(self, state):
            built.append(state["step"])
            return await super().build_env_vars(state)

        async def prepare_harbor_task(self, sandbox_id, task_dir):
            built.append(task_dir.name)
            await super().prepare_harbor_task(sandbox_id, task_dir)

    output = only(evaluate(harbor_env(tmp_path, Seen, backend=world(asking), max_turns=1), state_columns=STATE))
    assert [turn["prompt"][0]["content"] for turn in output["trajectory"]] == ["one", "two"]
    assert (output["reward"], output["step_rewards"]) == (1.0, {"one": 1.0, "two": 1.0})
    assert built == ["one", "stepped", "two", "stepped"]
    assert output["metrics"]["num_turns"] == 2.0
    names = ("reward", "num_turns", "agent_timeout", "agent_error")
    seen = {name: value for name, value in output["metrics"].items() if "/" in name}
    assert seen == {f"{step}/{name}": float(name in names[:2]) for step in ("one", "two") for name in names}


def test_a_step_that_was_not_played_has_no_metrics_and_one_that_was_has_what_its_verifier_counted(desk, tmp_path):
    make_steps(tmp_path, first="min_reward = 0.6")
    command = WRITE.format(first='{"reward": 0.5, "tests": 3, "note": "x"}', second='{"reward": 1}') + "; exit 4"
    env = vf.HarborEnv(command, tmp_path, backend=desk.backend, image="host")
    results = desk.wait(env.evaluate(echo, "m", retries=0))
    seen = {name: value for name, value in only(results)["metrics"].items() if "/" in name}
    ended = {"one/agent_timeout": 0.0, "one/agent_error": 1.0}
    assert seen == {"one/tests": 3.0, "one/reward": 0.5, "one/num_turns": 0.0, **ended}
    assert results["metadata"]["avg_metrics"]["one/tests"] == 3.0


def test_compute_reward_is_asked_for_each_step(tmp_path):
    make_steps(tmp_path)

    class Half(vf.HarborEnv):
        async def compute_reward(self, state):
            return {"one": 0.25, "two": 0.75}[state["step"]]

    output = only(evaluate(harbor_env(tmp_path, Half, backend=world(asking)), state_columns=STATE))
    assert (output["reward"], record_of(output).evaluation.reward) == (0.5, 0.5)


def test_a_machine_that_fails_in_a_later_step_leaves_no_reward(tmp_path):
    make_steps(tmp_path)

    async def failing(spec, sandbox):
        if sandbox.files["/task/instruction.md"] == b"two":
            raise SandboxError("the machine has lost power")

    output = only(evaluate(harbor_env(tmp_path, backend=world(failing)), state_columns=STATE))
    assert (output["reward"], output["error"]["message"]) == (None, "the machine has lost power")
    assert record_of(output).outcome == "infrastructure_error"


def test_what_a_verifier_wrote_is_out_of_sight_before_the_agent_comes_again(tmp_path):
    make_steps(tmp_path)
    phases = []

    class Watching(vf.HarborEnv):
        async def start_agent(self, state):
            phases.append(self.sandbox_client.known(state["sandbox_id"]).view.phase)
            await super().start_agent(state)

        async def compute_reward(self, state):
            reward = await super().compute_reward(state)
            phases.append(self.sandbox_client.known(state["sandbox_id"]).view.phase)
            return reward

    only(evaluate(harbor_env(tmp_path, Watching, backend=world(asking))))
    assert phases == ["agent", "verifier", "agent", "verifier"]
