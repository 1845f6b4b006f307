"""Means with bounds for what is not sure."""

import random
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.coverage_judges import Setting
from benchmarks.coverage_judges import simulate as simulate_judge
from seatrial.stats.corrected import (
    FAILED,
    Possible,
    Reviewed,
    confusion_of,
    corrected_mean,
    effective_size,
    known,
    labels_needed,
    prediction_powered,
    rogan_gladen,
    weighted_share,
)
from seatrial.stats.estimates import estimate_mean, wilson

POSSIBLE = st.tuples(st.floats(0.0, 1.0), st.none() | st.floats(0.0, 1.0)).map(lambda pair: known(*pair))


def test_disputed_and_failed_trials_open_the_mean():
    found = corrected_mean([[known(1.0), known(0.0, believed=1.0)], [known(0.5), FAILED]])
    assert found
    assert (found.lowest.value, found.highest.value) == pytest.approx((0.375, 0.875))
    assert (found.trials, found.unsure) == (4, 2)


def test_a_dispute_may_go_either_way():
    assert known(0.8, believed=0.3) == Possible(0.3, 0.8)


def test_what_is_sure_has_one_mean():
    found = corrected_mean([[known(1.0)], [known(0.5)], []])
    assert found
    assert found.lowest == found.highest == estimate_mean([[1.0], [0.5]])
    assert found.unsure == 0


def test_none_without_trials():
    assert corrected_mean([]) is None
    assert corrected_mean([[], []]) is None


@given(st.lists(st.lists(POSSIBLE | st.just(FAILED), max_size=4), min_size=1, max_size=6))
def test_the_lowest_is_never_above_the_highest(tasks):
    found = corrected_mean(tasks)
    if found:
        assert found.lowest.value <= found.highest.value
        assert found.lowest.low <= found.highest.high


RECALL, SPECIFICITY, TRUTH = 0.9, 0.7, 0.4
ROUNDS, TRIALS = 100, 600


def draw(seed: int, chances: dict[str, float], *, weighted: bool = True):
    """Trials by an erring verifier; those that look doubtful, as its errors often do, have another chance of review."""
    random_numbers = random.Random(seed)
    judged, reviewed = [], []
    for _ in range(TRIALS):
        people = random_numbers.random() < TRUTH
        right = random_numbers.random() < (RECALL if people else SPECIFICITY)
        verifier = people if right else not people
        judged.append((verifier, None))
        chance = chances["doubtful" if random_numbers.random() < (0.1 if right else 0.6) else "plain"]
        if random_numbers.random() < chance:
            reviewed.append(Reviewed(verifier, people, 1.0 / chance if weighted else 1.0))
    return judged, reviewed


def simulate(chances, *, weighted=True):
    """How far each estimate is from the truth on average, and how often its interval holds the truth."""
    off: dict[str, list[float]] = {"ppi": [], "gladen": [], "verifier": [], "people": []}
    held = {"ppi": 0, "gladen": 0}
    for seed in range(ROUNDS):
        judged, reviewed = draw(seed, chances, weighted=weighted)
        found = {
            "ppi": prediction_powered(judged, reviewed),
            "gladen": rogan_gladen(judged, confusion_of(reviewed)),
        }
        for name, rate in found.items():
            assert rate is not None
            off[name].append(rate.value - TRUTH)
            held[name] += rate.low <= TRUTH <= rate.high
        off["verifier"].append(statistics.fmean(passed for passed, _ in judged) - TRUTH)
        off["people"].append(statistics.fmean(each.people for each in reviewed) - TRUTH)
    return {name: statistics.fmean(each) for name, each in off.items()}, {
        name: count / ROUNDS for name, count in held.items()
    }


def test_corrected_rates_are_right_on_average_where_the_verifier_is_not():
    off, held = simulate({"doubtful": 0.3, "plain": 0.3})
    assert off["verifier"] == pytest.approx(0.14, abs=0.02)
    assert off["ppi"] == pytest.approx(0.0, abs=0.01)
    assert off["gladen"] == pytest.approx(0.0, abs=0.015)
    assert 0.93 <= held["ppi"] <= 1.0
    assert 0.93 <= held["gladen"] <= 1.0


def test_a_stratified_sample_needs_weights():
    chances = {"doubtful": 0.8, "plain": 0.15}
    off, held = simulate(chances)
    assert off["ppi"] == pytest.approx(0.0, abs=0.01)
    assert off["gladen"] == pytest.approx(0.0, abs=0.02)
    assert min(held.values()) >= 0.92
    biased, missed = simulate(chances, weighted=False)
    assert abs(biased["ppi"]) > 0.05
    assert abs(biased["gladen"]) > 0.05
    assert missed["ppi"] < 0.8


def test_the_verifier_makes_the_interval_narrower_where_it_is_good():
    judged = [(index % 2 == 0, None) for index in range(1000)]
    reviewed = [Reviewed(index % 2 == 0, index % 2 == 0) for index in range(100)]
    powered = prediction_powered(judged, reviewed)
    alone = prediction_powered([(True, None)] * 1000, [Reviewed(True, each.people) for each in reviewed])
    assert powered
    assert alone
    assert (powered.value, powered.tuning) == (0.5, 1.0)
    assert (alone.value, alone.tuning) == (0.5, 0.0)
    assert powered.high - powered.low < 0.5 * (alone.high - alone.low)


def test_a_handful_of_reviews_without_an_error_is_no_proof():
    judged = [(True, None)] * 90 + [(False, None)] * 10
    found = prediction_powered(judged, [Reviewed(True, True)] * 4 + [Reviewed(False, False)])
    assert found
    assert found.value == pytest.approx(0.9)
    assert found.high - found.low > 0.3
    assert (found.trials, found.reviewed) == (100, 5)


def test_trials_of_one_task_count_as_alike():
    apart = [Reviewed(True, index % 4 > 0, 1.0, index) for index in range(80)]
    alike = [Reviewed(True, index % 4 > 0, 1.0, index % 4) for index in range(80)]
    rates = [prediction_powered([(each.verifier, each.group) for each in sample], sample) for sample in (apart, alike)]
    first, second = rates
    assert first
    assert second
    assert first.value == second.value == 0.75
    assert second.high - second.low > 1.5 * (first.high - first.low)


@pytest.mark.parametrize(
    "reviewed",
    [
        [],
        [Reviewed(True, True)] * 5,
        [Reviewed(True, False), Reviewed(False, True)] * 5,
    ],
    ids=["nothing", "people failed nothing", "worse than chance"],
)
def test_there_is_no_rate_by_rogan_and_gladen_without_both_kinds_and_some_skill(reviewed):
    assert rogan_gladen([(True, None)] * 10, confusion_of(reviewed)) is None


def test_one_review_corrects_nothing():
    assert prediction_powered([(True, None)] * 10, [Reviewed(True, True)]) is None
    assert prediction_powered([], [Reviewed(True, True)] * 3) is None


def test_rates_and_intervals_stay_within_0_and_1():
    judged = [(False, None)] * 10
    reviewed = [*[Reviewed(False, False)] * 6, Reviewed(True, False), *[Reviewed(True, True)] * 3]
    for rate in (prediction_powered(judged, reviewed), rogan_gladen(judged, confusion_of(reviewed))):
        assert rate
        assert 0.0 <= rate.low <= rate.value <= rate.high <= 1.0


def trials(verifier: bool, people: bool, count: int, weight: float = 1.0):
    return [Reviewed(verifier, people, weight)] * count


def test_the_table_and_its_shares():
    found = confusion_of(
        [*trials(True, True, 40), *trials(True, False, 10), *trials(False, True, 5), *trials(False, False, 45)]
    )
    assert (found.both_pass, found.only_verifier, found.only_people, found.both_fail) == (40, 10, 5, 45)
    assert found.trials == 100
    assert found.precision
    assert found.recall
    assert found.specificity
    assert found.agreement
    assert found.precision.value == 0.8
    assert (found.precision.low, found.precision.high) == wilson(0.8, 50)
    assert found.recall.value == pytest.approx(40 / 45)
    assert found.specificity.value == pytest.approx(45 / 55)
    assert (found.agreement.value, found.agreement.trials) == (0.85, 100)


def test_a_share_of_nothing_is_none():
    found = confusion_of(trials(True, True, 3))
    assert found.specificity is None
    assert found.recall
    assert found.recall.value == 1.0
    assert confusion_of([]).agreement is None


def test_each_trial_stands_for_as_many_as_its_chance_says():
    even = confusion_of([*trials(True, True, 10, 4.0), *trials(False, True, 10, 1.0)])
    assert even.recall
    assert even.recall.value == 0.8
    assert even.recall.effective == pytest.approx(50**2 / (10 * 16 + 10))
    assert (even.both_pass, even.only_people) == (10, 10)


def test_equal_weights_change_nothing():
    plain, heavy = (weighted_share([(True, weight)] * 3 + [(False, weight)] * 2) for weight in (1.0, 7.0))
    assert plain
    assert heavy
    assert (plain.value, plain.low, plain.high) == pytest.approx((heavy.value, heavy.low, heavy.high))
    assert effective_size([2.0] * 9) == pytest.approx(9)


@pytest.mark.parametrize(
    "setting",
    [
        Setting(0.5, 0.9, 0.7, trials=400, labels=200, tasks=20),  # what both pass depends on the task
        Setting(0.1, 0.7, 0.9, trials=400, labels=100, tasks=40),
        Setting(0.3, 0.9, 0.7, trials=200, labels=20),
        Setting(0.9, 0.98, 0.98, trials=400, labels=50),
    ],
    ids=lambda setting: setting.name,
)
def test_rates_corrected_by_labels_of_people_hold_the_truth_for_judges_of_known_error(setting):
    scores = simulate_judge(setting, runs=400)
    for name in ("prediction-powered", "Rogan and Gladen"):
        assert scores[name].held >= 0.94 * scores[name].given
        assert scores[name].given > 300
    assert scores["the judge alone"].held < 0.94 * scores["the judge alone"].given or setting.recall > 0.95


@pytest.mark.parametrize("tasks", [None, 100])
def test_as_many_labels_as_were_planned_give_the_width_that_was_asked_for(tasks):
    widths, planned = [], []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        judged, reviewed = Setting(0.4, 0.9, 0.8, trials=2000, labels=100, tasks=tasks).draw(rng)
        planned.append(labels_needed(judged, reviewed, 0.15))
        assert planned[-1]
        found = prediction_powered(*Setting(0.4, 0.9, 0.8, 2000, planned[-1], tasks).draw(rng))
        assert found
        widths.append(found.high - found.low)
    assert statistics.fmean(widths) == pytest.approx(0.15, rel=0.1)


def test_no_number_of_labels_is_enough_where_too_little_was_judged():
    judged, reviewed = Setting(0.4, 0.9, 0.8, trials=60, labels=30).draw(np.random.default_rng(0))
    assert labels_needed(judged, reviewed, 0.05) is None
    assert labels_needed(judged, reviewed[:1], 0.5) is None
    assert labels_needed(judged, reviewed, 1.0) == 9
