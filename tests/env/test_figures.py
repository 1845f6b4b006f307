"""Means and what they are means of, with rollouts that failed, that nothing judged, and that are not there yet."""

import importlib.metadata
import itertools

import pytest

import seatrial as vf
from seatrial.env.figures import MetricMean, evaluation_figures
from seatrial.model.outcome import format_mean
from tests.env.games import ROWS, Guessing, counting


def output(example, reward, **more):
    usage = {"calls": 1, "input_tokens": 1000, "cached_tokens": 0, "output_tokens": 100}
    return {"example_id": example, "task": "t", "reward": reward, "error": None, "metrics": {}, "usage": usage, **more}


def failed(example, kind="model", message="no answer"):
    return output(example, None, error={"kind": kind, "error": "ProviderError", "message": message})


def test_a_rollout_that_failed_is_in_no_mean():
    figures = evaluation_figures([output(0, 1.0), output(0, 0.5), failed(1), failed(1)], planned=6)
    assert (figures.figures.mean, figures.rollout_mean_if_failed) == (0.75, 0.375)
    found = figures.figures
    assert (found.planned, found.finished, found.scored, figures.failed) == (6, 4, 2, 2)
    assert [(each.kind, each.message, each.rollouts) for each in figures.errors] == [("model", "no answer", 2)]


def test_nothing_at_all_has_no_mean():
    figures = evaluation_figures([], planned=3)
    assert (figures.figures.mean, figures.rollout_interval, figures.rollout_mean_if_failed) == (None, None, None)
    assert (figures.figures.trial_mean, figures.pass_at_k) == (None, {})


def test_rewards_beyond_0_and_1_have_a_mean_and_no_interval():
    figures = evaluation_figures([output(0, 2.0), output(1, -1.0)], planned=2)
    assert (figures.figures.mean, figures.figures.interval, figures.rollout_interval) == (0.5, None, None)


def test_the_interval_holds_the_mean():
    figures = evaluation_figures([output(n, float(n % 2)) for n in range(8)], planned=8)
    assert figures.rollout_interval is not None
    low, high = figures.rollout_interval
    assert 0 < low < 0.5 < high < 1


def test_pass_at_k_is_over_examples():
    outputs = [output(example, reward) for example, rewards in enumerate([(1, 0), (1, 1)]) for reward in rewards]
    figures = evaluation_figures(outputs, planned=4)
    assert (figures.pass_at_k, figures.pass_all_k) == ({1: 0.75, 2: 1.0}, {1: 0.75, 2: 0.5})


def test_the_threshold_says_what_passes():
    outputs = [output(0, 0.5), output(0, 0.4)]
    assert [evaluation_figures(outputs, 2, threshold).figures.solved for threshold in (0.4, 0.5, 1.0)] == [2, 1, 0]


def test_what_a_verifier_could_not_judge_does_not_count():
    outputs = [output(0, 1.0, outcome="pass"), output(1, 0.0, outcome="verifier_error")]
    figures = evaluation_figures(outputs, 2)
    assert (figures.figures.mean, figures.figures.invalid) == (1.0, 1)


def test_no_rollout_of_a_task_with_a_broken_verifier_counts():
    broken = output(0, 0.0, task="bad", outcome="verifier_error", verifier_broken=True)
    found = evaluation_figures([broken, output(0, 0.0, task="bad", outcome="fail"), output(1, 1.0, outcome="pass")], 3)
    assert (found.figures.mean, found.figures.scored, found.figures.invalid) == (1.0, 1, 2)


def test_metrics_have_the_rollouts_that_have_them():
    outputs = [output(0, 1.0, metrics={"turns": 2, "odd": None}), output(1, 1.0, metrics={"turns": 4}), failed(2)]
    turns = evaluation_figures(outputs, 3).metrics["turns"]
    assert (turns.mean, turns.rollouts) == (3.0, 2)


@pytest.mark.parametrize(("model", "known"), [("gpt-4o", True), ("openai/gpt-4o", True), ("my-own", False)])
def test_the_cost_is_known_where_there_is_a_price(model, known):
    figures = evaluation_figures([output(0, 1.0), failed(1)], 2, model=model)
    assert figures.usage["input_tokens"] == 2000
    assert (figures.cost_usd is not None) is known


def test_results_of_other_programs_are_read_too():
    """Their errors may be text, their tokens elsewhere, and much may not be there at all."""
    theirs = [{"example_id": 0, "reward": 1.0, "token_usage": {"input_tokens": 7.0, "output_tokens": 2.0}}]
    theirs.append({"example_id": 1, "reward": 0.0, "error": "SandboxError()"})
    figures = evaluation_figures(theirs, 2)
    assert (figures.figures.mean, figures.rollout_mean_if_failed, figures.usage["input_tokens"]) == (1.0, 0.5, 7)


@pytest.mark.parametrize(
    "nonsense", [float("nan"), float("inf"), 10**400, "text", None], ids=["nan", "inf", "huge", "text", "none"]
)
def test_what_is_no_number_is_in_no_mean(nonsense):
    found = evaluation_figures(
        [output(0, 1.0, metrics={"a": nonsense}), output(0, 0.0, metrics={"a": 2}), output(1, nonsense)], 3
    )
    assert (found.metrics["a"].mean, found.metrics["a"].rollouts) == (2.0, 1)
    assert (found.figures.mean, found.figures.scored) == (0.5, 2)


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


def test_weights_that_sum_to_less_than_1_in_floating_point_only_are_a_full_reward():
    tenths = [0.6, 0.3, 0.1]
    assert 0.6 + 0.3 + 0.1 < 1
    rubric = vf.Rubric([lambda: 1.0, lambda: 1.0, lambda: 1.0], weights=tenths)
    made = vf.MultiTurnEnv(dataset=[{"prompt": "q"}], rubric=rubric, max_turns=1)
    metadata = made.evaluate_sync(counting, "m", rollouts_per_example=2, max_concurrent=1)["metadata"]
    assert (metadata["passed"], format_mean(metadata["mean_reward"])) == (2, "1.000")


def test_what_passes_is_told_by_the_threshold():
    metadata = evaluated([0.6, 0.4], 2, pass_threshold=0.7)
    assert (metadata["pass_at_k"]["2"], metadata["pass_threshold"]) == (0.0, 0.7)
    assert evaluated([0.6, 0.4], 2)["passed"] == 0, "as in records: what is not a 1 has not passed"
    assert evaluated([0.6, 0.4], 2, pass_threshold=0.5)["pass_at_k"]["2"] == 1.0


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
    assert evaluation_figures(results["outputs"], 2).metrics["marked"] == MetricMean(0.0, 1)
