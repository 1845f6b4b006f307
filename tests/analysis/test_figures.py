"""The figures of an agent: over tasks, with every k that its attempts allow, and costs only where they are known."""

import pytest

from seatrial.analysis.arms import arms_of
from seatrial.analysis.figures import (
    RunningMean,
    Times,
    Trials,
    attempts_asked,
    corrected_of,
    figures_of,
    mean_over_tasks,
    times_of,
)
from seatrial.analysis.loaded import load_job
from seatrial.model.record import ModelUsage
from seatrial.stats.estimates import Stability
from tests.analysis.in_memory import entry
from tests.cli.job_folders import BROKEN, make_job, record


def figures(folder, *records, clusters=None):
    make_job(folder, *records, attempts=4)
    return figures_of(arms_of([load_job(folder)])[0].selected, clusters=clusters)


def attempts(task, *results, **more):
    return [record(task, result, attempt=number, **more) for number, result in enumerate(results, start=1)]


def test_tasks_count_alike_however_often_they_were_judged(tmp_path):
    found = figures(tmp_path / "job", *attempts("a", 1.0, 1.0, 0.0), *attempts("b", 0.0, BROKEN), *attempts("c", 1.0))
    assert found.estimate
    assert found.mean == found.estimate.value == pytest.approx((2 / 3 + 0 + 1) / 3)
    assert (found.estimate.groups, found.estimate.values) == (3, 5)
    assert found.pass_rate == pytest.approx(found.mean)
    assert found.pass_at[1].value == pytest.approx(found.mean)
    assert {k: round(each.value, 4) for k, each in found.pass_at.items()} == {1: 0.5556, 2: 1.0, 3: 1.0}
    assert {k: round(each.value, 4) for k, each in found.pass_all.items()} == {1: 0.5556, 2: 0.3333, 3: 0.0}
    assert found.stability == Stability(tasks=3, always=1, never=1, flaky=1)
    assert found.solved == 3
    assert found.times
    assert (found.times.median, found.times.p90, found.times.total) == (2.0, 2.0, 12.0)


def test_nine_of_ten_trials_take_no_longer():
    found = times_of([entry("t", 1.0, attempt=number)._replace(duration_sec=float(number)) for number in range(1, 21)])
    assert found == Times(median=10.5, p90=18.0, total=210.0)


def test_what_failed_is_paid_for_too(tmp_path):
    usage = ModelUsage(calls=1, input_tokens=10, output_tokens=5, cost_usd=0.5)
    found = figures(tmp_path / "job", *attempts("a", 1.0, 0.0, BROKEN, model_usage=usage))
    assert found.cost_per_solved == pytest.approx(1.5)
    nothing = figures(tmp_path / "none", *attempts("a", 0.0, model_usage=usage))
    assert nothing.cost_per_solved is None
    unknown = usage.model_copy(update={"cost_usd": None})
    assert figures(tmp_path / "unknown", *attempts("a", 1.0, model_usage=unknown)).cost_per_solved is None


def test_tasks_of_one_family_say_less_than_as_many_others(tmp_path):
    tasks = [*attempts("a1", 1.0), *attempts("a2", 1.0), *attempts("b1", 0.0), *attempts("b2", 0.0)]
    alone = figures(tmp_path / "alone", *tasks).estimate
    together = figures(tmp_path / "together", *tasks, clusters={"a1": "a", "a2": "a", "b1": "b", "b2": "b"}).estimate
    assert alone
    assert together
    assert together.value == alone.value
    assert together.high - together.low > alone.high - alone.low


def test_families_count_together_in_pass_at_k_too(tmp_path):
    tasks = [*attempts("a1", 1.0, 1.0), *attempts("a2", 1.0, 1.0), *attempts("b1", 0.0, 0.0), *attempts("b2", 0.0, 0.0)]
    alone = figures(tmp_path / "alone", *tasks)
    together = figures(tmp_path / "together", *tasks, clusters={"a1": "a", "a2": "a", "b1": "b", "b2": "b"})
    assert (alone.pass_at[1], alone.pass_at[2].low) == (
        alone.pass_estimate,
        alone.pass_estimate and alone.pass_estimate.low,
    )
    assert together.pass_at[2].low == together.pass_all[2].low == together.pass_at[1].low
    assert together.pass_at[2].low < alone.pass_at[2].low


def test_nothing_judged_has_no_figures(tmp_path):
    found = figures(tmp_path / "job", *attempts("a", BROKEN))
    assert (found.mean, found.pass_rate, found.pass_at, found.cost_per_solved) == (None, None, {}, None)


@pytest.mark.parametrize(
    ("judged", "ks"),
    [([], []), ([1], [1]), ([3, 1], [1, 2, 3]), ([8], [1, 2, 4, 8]), ([0], []), ([10], [1, 2, 4, 8, 10])],
)
def test_ks_are_powers_of_two_and_the_most_attempts(judged, ks):
    assert attempts_asked([(count, 0) for count in judged]) == ks


def test_what_is_not_sure_opens_the_mean(tmp_path):
    trials = [*attempts("a", 1.0, BROKEN), record("b", 0.0, disputed_reward=1.0)]
    make_job(tmp_path / "job", *trials, attempts=2)
    found = corrected_of(arms_of([load_job(tmp_path / "job")])[0].selected)
    assert found
    assert (found.lowest.value, found.highest.value) == (0.25, 1.0)
    assert (found.trials, found.unsure) == (3, 2)


def test_a_task_is_not_of_the_family_that_has_its_name(tmp_path):
    make_job(tmp_path / "x", *(record(f"t{index}", float(index % 2)) for index in range(6)))
    (arm,) = arms_of([load_job(tmp_path / "x")])
    pair = {"t0": "pair", "t2": "pair"}
    assert figures_of(arm.selected, clusters=pair) == figures_of(arm.selected, clusters=dict.fromkeys(pair, "t1"))


def test_a_running_mean_is_over_tasks_and_exact():
    running = RunningMean()
    rewards = [("a", 1.0), ("a", 1.0), ("b", 0.0), ("a", 0.1)]
    for count, (task, reward) in enumerate(rewards, start=1):
        running.add(task, reward)
        assert running.value == pytest.approx(mean_over_tasks(rewards[:count]))


def test_rewards_beyond_0_and_1_have_a_mean_and_no_interval():
    found = figures_of(Trials([entry("a", 2.0), entry("b", -1.0)], planned=2))
    assert (found.mean, found.estimate, found.interval) == (0.5, None, None)
