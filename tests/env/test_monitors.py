"""Metrics of how an agent fared, beside whatever the rubric of an environment says."""

import asyncio

import pytest

import seatrial as vf
from seatrial.env.monitors import ToolMonitorRubric
from seatrial.env.rollout import new_state
from seatrial.testing.fake import answer
from tests.env.games import counting
from tests.env.tool_models import call
from tests.env.worlds import ask, cli_env, evaluate, only


async def crashing(spec, sandbox):
    await ask(spec, "hello")
    return answer(exit_code=3)


async def one(state):
    return 1.0


def test_turns_and_crashes_are_metrics_of_weight_0():
    output = only(evaluate(cli_env(crashing, rubric=vf.Rubric([one]))))
    expected = {"one": 1.0, "num_turns": 1.0, "agent_error": 1.0, "agent_timeout": 0.0}
    expected |= {"sandbox_oom": 0.0, "sandbox_timeout": 0.0}
    assert (output["reward"], output["metrics"]) == (1.0, expected)


def test_a_metric_of_that_name_of_ones_own_stays_the_only_one():
    async def num_turns(state):
        return 7.0

    metrics = only(evaluate(cli_env(crashing, rubric=vf.Rubric([one, num_turns], [1.0, 0.0]))))["metrics"]
    assert (metrics["num_turns"], "num_turns_2" in metrics) == (7.0, False)


def test_metrics_without_a_rubric_leave_a_rollout_worth_what_its_hooks_say():
    class Own(vf.CliAgentEnv):
        async def post_rollout(self, state):
            await super().post_rollout(state)
            state["reward"] = 0.5

    output = only(evaluate(cli_env(crashing, Own)))
    assert (output["reward"], output["metrics"]["agent_error"]) == (0.5, 1.0)


class Fixed(vf.Rubric):
    async def advantages(self, states):
        return [42.0 for _ in states]


class Together(vf.Rubric):
    async def score_group(self, states):
        for state in states:
            state.update(reward=0.5, metrics={}, advantage=7.0)


@vf.advantage
def marked(rewards):
    return [3.0 for _ in rewards]


@pytest.mark.parametrize(
    ("rubric", "advantage"), [(Fixed([one]), 42.0), (Together(), 7.0), (vf.Rubric([one, marked]), 3.0)]
)
def test_metrics_leave_the_advantages_that_a_rubric_gives_in_its_own_way(rubric, advantage):
    env = vf.SingleTurnEnv(dataset=[{"question": "q"}], rubric=rubric)
    outputs = env.evaluate_sync(counting, "m", rollouts_per_example=2)["outputs"]
    assert [(output["advantage"], output["metrics"]["num_turns"]) for output in outputs] == [(advantage, 1.0)] * 2


def test_advantages_of_one_rubric_are_not_those_of_a_sum():
    env = vf.SingleTurnEnv(dataset=[{"question": "q"}], rubric=vf.RubricGroup([Together(), vf.Rubric([one])]))
    outputs = env.evaluate_sync(counting, "m", rollouts_per_example=2)["outputs"]
    assert [(output["reward"], output["advantage"]) for output in outputs] == [(1.5, 0.0)] * 2


def test_a_group_with_a_reward_that_is_no_number_has_no_advantages():
    class Endless(vf.Rubric):
        async def score_group(self, states):
            for state in states:
                state.update(reward=float("inf"), metrics={}, advantage=None)

    env = vf.SingleTurnEnv(dataset=[{"question": "q"}], rubric=Endless())
    outputs = env.evaluate_sync(counting, "m", rollouts_per_example=2)["outputs"]
    assert [(output["reward"], output["advantage"]) for output in outputs] == [(None, None)] * 2


def test_calls_are_counted_and_the_reward_is_left_alone():
    state = new_state({"prompt": "q"}, "m", None)
    said = {"role": "assistant", "tool_calls": [call("f", {}), call("g", {}), call("f", {})]}
    state["completion"], state["reward"] = [said, {"role": "tool", "content": "x"}, said], 0.5
    monitor = ToolMonitorRubric(["f", "g", "f"])
    monitor.remove_tool_metric("g")
    monitor.remove_tool_metric("h")
    asyncio.run(monitor.score_rollout(state))
    assert (state["metrics"], state["reward"]) == ({"total_tool_calls": 6.0, "f_calls": 4.0}, 0.5)
