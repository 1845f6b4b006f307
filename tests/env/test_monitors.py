"""Metrics of how an agent fared, beside whatever the rubric of an environment says."""

import seatrial as vf
from seatrial.testing.fake import answer
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
