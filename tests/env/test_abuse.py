"""Abuse: rollouts that break in every way, beside siblings that do not notice."""

from typing import Any

import pytest

import seatrial as vf
from tests.env.games import Guessing, counting

ROLLOUTS, BROKEN = 64, 10
ROWS: list[dict[str, Any]] = [
    {"question": "Guess.", "info": {"number": 0, "broken": number < BROKEN}} for number in range(ROLLOUTS)
]


def breaking(where):
    """An environment in which a method breaks the rollouts of some rows."""

    class Breaking(Guessing):
        swept = 0

        @vf.cleanup
        async def sweep(self, state):
            Breaking.swept += 1

    method = getattr(Guessing, where)

    async def break_or_go_on(self, *args, **kwargs):
        state = next(each for each in args if isinstance(each, vf.State))
        if state["info"]["broken"]:
            raise RuntimeError("broken")
        return await method(self, *args, **kwargs)

    setattr(Breaking, where, break_or_go_on)
    return Breaking


HOOKS = ["setup_state", "get_prompt_messages", "get_model_response", "env_response", "render_completion"]


@pytest.mark.parametrize("where", [*HOOKS, "post_rollout", "max_turns_reached"])
def test_siblings_of_a_rollout_whose_hook_raises_are_unharmed(where):
    kind = breaking(where)
    results = kind(dataset=ROWS).evaluate_sync(counting, "m", max_concurrent=8)
    check(results, "hook", f"{where} failed: RuntimeError: broken")
    assert kind.swept == ROLLOUTS


def test_siblings_of_a_rollout_whose_reward_function_raises_are_unharmed():
    def reward(info):
        if info["broken"]:
            raise RuntimeError("broken")
        return 1.0

    results = Guessing(dataset=ROWS, rubric=vf.Rubric([reward])).evaluate_sync(counting, "m")
    check(results, "hook", "the reward function reward failed: RuntimeError: broken")


def test_siblings_of_a_rollout_whose_model_fails_are_unharmed():
    def model(request):
        if "broken" in request["messages"][0]["content"]:
            raise ConnectionError("gone")
        return "0"

    rows = [{**row, "question": "broken" if row["info"]["broken"] else "fine"} for row in ROWS]
    results = Guessing(dataset=rows).evaluate_sync(model, "m")
    check(results, "model", "ConnectionError: gone")


def test_siblings_of_a_rollout_whose_infrastructure_fails_are_unharmed():
    class Sinking(Guessing):
        async def setup_state(self, state):
            if state["info"]["broken"]:
                raise vf.SandboxError("the sandbox is gone")
            return state

    results = Sinking(dataset=ROWS).evaluate_sync(counting, "m")
    check(results, "infrastructure", "the sandbox is gone")
    assert results["outputs"][0]["error"]["retryable"]


def test_siblings_of_a_rollout_that_raises_as_a_whole_are_unharmed():
    class Own(Guessing):
        async def rollout(self, input, client, model, sampling_args=None):  # noqa: A002 - the documented name
            if input["info"]["broken"]:
                raise RuntimeError("broken")
            return await super().rollout(input, client, model, sampling_args)

    check(Own(dataset=ROWS).evaluate_sync(counting, "m"), "hook", "rollout failed: RuntimeError: broken")


@pytest.mark.parametrize("change", [{"timing": None}, {"reward": "much"}, {"reward": float("nan")}])
def test_siblings_of_a_rollout_whose_state_was_spoiled_are_unharmed(change):
    class Spoiling(Guessing):
        async def post_rollout(self, state):
            state["reward"] = 1.0
            if state["info"]["broken"]:
                state.update(usage="none", metrics=7, **change)

    results = Spoiling(dataset=ROWS, rubric=vf.Rubric()).evaluate_sync(counting, "m")
    check(results, "hook", "failed")


@pytest.mark.parametrize("returned", [None, {}, vf.State()])
def test_a_rollout_that_returns_no_state_is_an_error_or_a_blank(returned):
    class Own(Guessing):
        async def rollout(self, input, client, model, sampling_args=None):  # noqa: A002 - the documented name
            return returned

    results = Own(dataset=ROWS[:2], rubric=vf.Rubric()).evaluate_sync(counting, "m")
    assert [output["reward"] for output in results["outputs"]] == [None, None]
    assert results["metadata"]["errors"] == (2 if returned is None else 0)


def check(results, kind, message):
    metadata, outputs = results["metadata"], results["outputs"]
    assert [output["error"] is not None for output in outputs] == [row["info"]["broken"] for row in ROWS]
    assert [output["reward"] for output in outputs] == [None] * BROKEN + [1.0] * (ROLLOUTS - BROKEN)
    assert all(output["error"]["kind"] == kind for output in outputs[:BROKEN])
    assert all(message in output["error"]["message"] for output in outputs[:BROKEN])
    assert metadata["avg_reward"] == 1.0
    assert (metadata["planned"], metadata["scored"], metadata["errors"]) == (ROLLOUTS, ROLLOUTS - BROKEN, BROKEN)
    assert metadata["errors_by_kind"] == {kind: BROKEN}


def test_a_cleanup_that_raises_costs_nobody_anything():
    class Untidy(Guessing):
        @vf.cleanup
        async def sweep(self, state):
            raise RuntimeError("no broom")

    results = Untidy(dataset=ROWS).evaluate_sync(counting, "m")
    assert results["metadata"]["scored"] == ROLLOUTS
    assert results["outputs"][0]["cleanup_errors"] == ["sweep failed: RuntimeError: no broom"]
