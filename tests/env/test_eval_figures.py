"""Means and what they are means of, with rollouts that failed, that nothing judged, and that are not there yet."""

import pytest

from seatrial.env.eval_figures import figures_of


def output(example, reward, **more):
    usage = {"calls": 1, "input_tokens": 1000, "cached_tokens": 0, "output_tokens": 100}
    return {"example_id": example, "task": "t", "reward": reward, "error": None, "metrics": {}, "usage": usage, **more}


def failed(example, kind="model", message="no answer"):
    return output(example, None, error={"kind": kind, "error": "ProviderError", "message": message})


def test_a_rollout_that_failed_is_in_no_mean():
    figures = figures_of([output(0, 1.0), output(0, 0.5), failed(1), failed(1)], planned=6)
    assert (figures.mean, figures.mean_failed_as_zero) == (0.75, 0.375)
    assert (figures.planned, figures.finished, figures.scored, figures.failed) == (6, 4, 2, 2)
    assert [(each.kind, each.message, each.rollouts) for each in figures.errors] == [("model", "no answer", 2)]


def test_nothing_at_all_has_no_mean():
    figures = figures_of([], planned=3)
    assert (figures.mean, figures.interval, figures.mean_failed_as_zero, figures.pass_at_k) == (None, None, None, {})


def test_rewards_beyond_0_and_1_have_a_mean_and_no_interval():
    figures = figures_of([output(0, 2.0), output(1, -1.0)], planned=2)
    assert (figures.mean, figures.interval) == (0.5, None)


def test_the_interval_holds_the_mean():
    figures = figures_of([output(n, float(n % 2)) for n in range(8)], planned=8)
    assert figures.interval is not None
    low, high = figures.interval
    assert 0 < low < 0.5 < high < 1


def test_pass_at_k_is_over_examples():
    outputs = [output(example, reward) for example, rewards in enumerate([(1, 0), (1, 1)]) for reward in rewards]
    figures = figures_of(outputs, planned=4)
    assert (figures.pass_at_k, figures.pass_all_k) == ({1: 0.75, 2: 1.0}, {1: 0.75, 2: 0.5})


def test_the_threshold_says_what_passes():
    outputs = [output(0, 0.5), output(0, 0.4)]
    assert [figures_of(outputs, 2, threshold).passed for threshold in (0.4, 0.5, 1.0)] == [2, 1, 0]


def test_what_a_verifier_could_not_judge_does_not_count():
    outputs = [output(0, 1.0, outcome="pass"), output(1, 0.0, outcome="verifier_error")]
    figures = figures_of(outputs, 2)
    assert (figures.mean, figures.invalid) == (1.0, 1)


def test_no_rollout_of_a_task_with_a_broken_verifier_counts():
    broken = output(0, 0.0, task="bad", outcome="verifier_error", verifier_broken=True)
    figures = figures_of([broken, output(0, 0.0, task="bad", outcome="fail"), output(1, 1.0, outcome="pass")], 3)
    assert (figures.mean, figures.scored) == (1.0, 1)


def test_metrics_have_the_rollouts_that_have_them():
    outputs = [output(0, 1.0, metrics={"turns": 2, "odd": None}), output(1, 1.0, metrics={"turns": 4}), failed(2)]
    turns = figures_of(outputs, 3).metrics["turns"]
    assert (turns.mean, turns.rollouts) == (3.0, 2)


@pytest.mark.parametrize(("model", "known"), [("gpt-4o", True), ("openai/gpt-4o", True), ("my-own", False)])
def test_the_cost_is_known_where_there_is_a_price(model, known):
    figures = figures_of([output(0, 1.0), failed(1)], 2, model=model)
    assert figures.usage["input_tokens"] == 2000
    assert (figures.cost_usd is not None) is known


def test_results_of_other_programs_are_read_too():
    """Their errors may be text, their tokens elsewhere, and much may not be there at all."""
    theirs = [{"example_id": 0, "reward": 1.0, "token_usage": {"input_tokens": 7.0, "output_tokens": 2.0}}]
    theirs.append({"example_id": 1, "reward": 0.0, "error": "SandboxError()"})
    figures = figures_of(theirs, 2)
    assert (figures.mean, figures.mean_failed_as_zero, figures.usage["input_tokens"]) == (1.0, 0.5, 7)


@pytest.mark.parametrize(
    "nonsense", [float("nan"), float("inf"), 10**400, "text", None], ids=["nan", "inf", "huge", "text", "none"]
)
def test_what_is_no_number_is_in_no_mean(nonsense):
    found = figures_of(
        [output(0, 1.0, metrics={"a": nonsense}), output(0, 0.0, metrics={"a": 2}), output(1, nonsense)], 3
    )
    assert (found.metrics["a"].mean, found.metrics["a"].rollouts, found.mean, found.scored) == (2.0, 1, 0.5, 2)
