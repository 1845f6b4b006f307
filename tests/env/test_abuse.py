"""Abuse: rollouts that break in every way, beside siblings that do not notice."""

from typing import Any

import pytest

import seatrial as vf
from tests.env.games import Guessing, counting
from tests.env.worlds import make_tasks

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


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dataset_path": None}, "dataset_path is None, expected a path"),
        ({"run_command": ["python", "agent.py"]}, "run_command is of type list, expected a str"),
        ({"tasks": 3}, "tasks is 3, expected a list of names"),
        ({"layout": "x"}, "layout: expected 'harbor' or 'verifiers', found 'x'"),
        ({"network": "x"}, "network is 'x', expected one of 'public', 'none'"),
        ({"enforcement": "x"}, "enforcement is 'x', expected one of 'required', 'partial'"),
        ({"image_fallback": 3}, "image_fallback is 3, expected one of "),
        ({"image_map": "a"}, "image_map is of type str, expected a table"),
        ({"image_map": {"a": 3}}, r"image_map\.a: expected a valid string, found 3"),
        ({"environment_vars": "x"}, "environment_vars is of type str, expected a table"),
        ({"allow_env": 3}, "allow_env is 3, expected a list of names"),
        ({"memory_gb": "x"}, "memory_gb='x': expected more than 0"),
        ({"timeout_seconds": -1}, "timeout_seconds=-1: expected more than 0"),
        ({"max_turns": "x"}, "max_turns is 'x', expected a whole number"),
        ({"pass_threshold": "x"}, "pass_threshold is x, expected a reward from 0 to 1"),
        ({"translate": "x"}, "translate is 'x', expected one of 'lenient', 'strict'"),
        ({"interception_port": "x"}, "interception_port is 'x', expected a whole number"),
        ({"backend": 4}, "backend is 4, expected the name of one"),
        ({"rubric": [1]}, "rubric is of type list, expected a Rubric"),
        ({"sampling_args": [1]}, "sampling_args is of type list, expected a table"),
    ],
)
def test_an_environment_that_makes_no_sense_is_refused_when_it_is_made(tmp_path, options, said):
    given = {"run_command": "true", "dataset_path": make_tasks(tmp_path), "image": "host", **options}
    with pytest.raises(vf.UsageError, match=said):
        vf.HarborEnv(**given)


def test_one_name_of_a_variable_is_not_taken_for_its_letters(tmp_path):
    env = vf.HarborEnv("true", make_tasks(tmp_path), allow_env="HOME")
    assert env.trial_options.allow_env == ("HOME",)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sampling_args": "x"}, "sampling_args is of type str, expected a table"),
        ({"state_columns": 3}, "state_columns is 3, expected a list of names"),
        ({"shuffle": True, "seed": [1]}, r"seed is \[1\], expected a whole number"),
        ({"save_to": 3}, "save_to is 3, expected a path"),
    ],
)
def test_an_evaluation_that_makes_no_sense_is_refused(options, said):
    with pytest.raises(vf.UsageError, match=said):
        vf.SingleTurnEnv(dataset=[{"question": "?"}]).evaluate_sync(lambda messages: "x", "m", **options)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: vf.Rubric(3), "funcs is 3, expected a list"),  # type: ignore[arg-type]
        (lambda: vf.Rubric([3]), "the rubric has 3 among its functions"),  # type: ignore[list-item]
        (lambda: vf.Rubric([len], ["x"]), "the rubric has 'x' among its weights"),  # type: ignore[list-item]
        (lambda: vf.EnvGroup(envs=[3]), "one of envs is of type int, expected an Environment"),  # type: ignore[list-item]
        (lambda: vf.load_environment(None), "the name of an environment is of type NoneType"),  # type: ignore[arg-type]
        (lambda: vf.load_job(None), "the folder of the job is None, expected a path"),  # type: ignore[arg-type]
        (lambda: vf.compare([]), "the folder of the job is .*, expected a path"),  # type: ignore[arg-type]
    ],
)
def test_other_values_that_make_no_sense_are_refused_in_words(make, said):
    with pytest.raises(vf.UsageError, match=said):
        make()
