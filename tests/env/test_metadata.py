"""What outputs amount to: estimates of k attempts, errors apart from rewards, and what was used."""

import importlib.metadata
import itertools

import pytest

import seatrial as vf
from seatrial.env.eval_figures import MetricMean, figures_of
from tests.env.games import ROWS, Guessing, counting


def evaluated(rewards, rollouts, **env):
    """The metadata of rollouts with these rewards; None for one that fails."""
    left = iter(rewards)

    def judge():
        reward = next(left)
        if reward is None:
            raise vf.SandboxError("gone")
        return reward

    rows = [{"prompt": "q"}] * (len(rewards) // rollouts)
    made = vf.MultiTurnEnv(dataset=rows, rubric=vf.Rubric([judge]), max_turns=1, **env)
    return made.evaluate_sync(counting, "m", rollouts_per_example=rollouts, max_concurrent=1)["metadata"]


def test_pass_at_k_and_pass_all_k_are_over_examples():
    metadata = evaluated([1, 0, 0, 0, 1, 1, 1, 1], 4)
    assert metadata["pass_at_k"] == pytest.approx({"1": 0.625, "2": 0.75, "4": 1.0})
    assert metadata["pass_all_k"] == pytest.approx({"1": 0.625, "2": 0.5, "4": 0.5})


def test_what_passes_is_told_by_the_threshold():
    metadata = evaluated([0.6, 0.4], 2, pass_threshold=0.7)
    assert (metadata["pass_at_k"]["2"], metadata["pass_threshold"]) == (0.0, 0.7)
    assert evaluated([0.6, 0.4], 2)["pass_at_k"]["2"] == 1.0


def test_single_rollouts_have_no_pass_at_k():
    assert evaluated([1, 0], 1)["pass_at_k"] == {}


def test_a_rollout_that_failed_is_no_attempt_and_no_zero():
    metadata = evaluated([1, None, 1, 1], 2)
    assert (metadata["avg_reward"], metadata["avg_reward_failed_as_zero"]) == (1.0, 0.75)
    assert (metadata["avg_error"], metadata["errors"]) == (0.25, 1)
    assert metadata["pass_all_k"] == {"1": 1.0, "2": 1.0}  # of the one example that was judged twice


def test_an_evaluation_of_nothing_has_no_means():
    metadata = Guessing().evaluate_sync(counting, "m", num_examples=0)["metadata"]
    assert [metadata[name] for name in ("avg_error", "avg_reward", "avg_reward_failed_as_zero", "token_usage")] == [
        None
    ] * 4


def test_tokens_are_those_of_a_rollout_on_average():
    sizes = itertools.cycle([(10, 1), (20, 3)])

    def model(request):
        prompt, completion = next(sizes)
        usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
        return {
            "choices": [{"message": {"role": "assistant", "content": "5"}, "finish_reason": "stop"}],
            "usage": usage,
        }

    env = Guessing(dataset=ROWS[:1], max_turns=2)
    results = env.evaluate_sync(model, "m", rollouts_per_example=2, max_concurrent=1)
    expected = {"input_tokens": 30, "output_tokens": 4, "final_input_tokens": 19, "final_output_tokens": 4}
    assert results["outputs"][0]["token_usage"] == expected
    assert results["metadata"]["token_usage"] == expected
    assert results["metadata"]["usage"]["input_tokens"] == 60


def test_it_is_said_what_was_run_and_with_what():
    tools = [{"name": "look", "description": "Look.", "parameters": {"type": "object"}}]
    env = Guessing(env_id="org/pytest", env_args={"level": 3}, tool_defs=tools)
    metadata = env.evaluate_sync(counting, "m", state_columns=["model"])["metadata"]
    assert metadata["version_info"] == {
        "seatrial_version": importlib.metadata.version("seatrial"),
        "env_version": importlib.metadata.version("pytest"),
    }
    assert (metadata["env_args"], metadata["state_columns"], metadata["path_to_save"]) == (
        {"level": 3},
        ["model"],
        None,
    )
    assert metadata["tools"][0]["function"]["name"] == "look"
    assert metadata["time"] == pytest.approx(metadata["time_ms"] / 1000)
    assert (
        Guessing(env_id="no-such-package").evaluate_sync(counting, "m")["metadata"]["version_info"]["env_version"]
        is None
    )


def test_metrics_of_rollouts_that_failed_are_in_no_mean():
    def judge(answer):
        return float(answer)

    def marked(answer):
        return float(answer == "no number")

    rows = [{"prompt": "q", "answer": answer} for answer in ("1", "no number")]
    env = vf.MultiTurnEnv(dataset=rows, rubric=vf.Rubric([judge, marked], [1.0, 0.0]), max_turns=1)
    results = env.evaluate_sync(counting, "m")
    assert results["outputs"][1]["metrics"] == {"judge": None, "marked": 1.0, "num_turns": 1.0}
    assert results["metadata"]["avg_metrics"] == {"judge": 1.0, "marked": 0.0, "num_turns": 1.0}
    assert figures_of(results["outputs"], 2).metrics["marked"] == MetricMean(0.0, 1)
