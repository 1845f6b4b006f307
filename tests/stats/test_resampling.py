"""Intervals of agreement: made again by their seed, honest where nobody disagreed, absent where they would mislead."""

import random
from collections import Counter

import pytest

from seatrial.stats.agreement import Verdicts, cohen, gwet, percent
from seatrial.stats.intervals import wilson
from seatrial.stats.resampling import estimate_agreement

SPLIT: dict[Verdicts, int] = {("p", "p"): 20, ("f", "f"): 12, ("p", "f"): 4, ("f", "p"): 3}


def test_the_same_seed_gives_the_same_interval_whatever_the_order():
    found = estimate_agreement(cohen, SPLIT, seed=3)
    assert found == estimate_agreement(cohen, dict(reversed(SPLIT.items())), seed=3)
    other = estimate_agreement(cohen, SPLIT, seed=4)
    assert found
    assert other
    assert found.value == other.value
    assert (found.low, found.high) != (other.low, other.high)


def test_the_interval_holds_the_value_and_narrows_with_items():
    few = estimate_agreement(cohen, SPLIT)
    many = estimate_agreement(cohen, {kind: 16 * count for kind, count in SPLIT.items()})
    assert few
    assert many
    assert few.low is not None
    assert few.high is not None
    assert few.low < few.value < few.high
    assert many.width is not None
    assert few.width is not None
    assert many.width == pytest.approx(few.width / 4, rel=0.15)
    assert (few.items, few.level) == (39, 0.95)


def test_the_interval_of_a_share_is_about_that_of_wilson():
    found = estimate_agreement(percent, SPLIT)
    assert found
    assert (found.low, found.high) == pytest.approx(wilson(32 / 39, 39), abs=0.06)


def test_where_nobody_disagreed_few_items_say_little():
    few = estimate_agreement(cohen, {("p", "p"): 3, ("f", "f"): 2})
    many = estimate_agreement(cohen, {("p", "p"): 300, ("f", "f"): 200})
    assert few
    assert many
    assert few.low is not None
    assert many.low is not None
    assert (few.value, few.high, many.value) == (1.0, 1.0, 1.0)
    assert few.low < 0.3
    assert many.low > 0.98


def test_where_everybody_disagreed_few_items_say_little_too():
    few, many = (estimate_agreement(cohen, {("p", "f"): count}) for count in (2, 500))
    assert few
    assert many
    assert (few.value, few.low, many.value) == (0.0, 0.0, 0.0)
    assert few.width is not None
    assert many.width is not None
    assert few.width > 0.5
    assert many.width < 0.02


def test_one_class_has_an_interval_only_by_a_measure_that_knows_the_other():
    assert estimate_agreement(cohen, {("p", "p"): 40}) is None
    found = estimate_agreement(lambda table: gwet(table, ("p", "f")), {("p", "p"): 40})
    assert found
    assert found.value == 1.0
    assert found.low == pytest.approx(wilson(1.0, 40)[0])


def test_no_interval_where_most_resamples_have_no_value():
    found = estimate_agreement(cohen, {("p", "p"): 6, ("p", "f"): 1})
    assert found
    assert found.value == 0.0
    assert (found.low, found.high, found.width) == (None, None, None)


def test_the_interval_holds_the_truth_about_as_often_as_it_says():
    """Two raters who know the truth of nine in ten items and toss a coin for the others."""
    draw, held, rounds = random.Random(1), 0, 40
    truth = 0.81
    for _ in range(rounds):
        table: Counter[Verdicts] = Counter()
        for _ in range(120):
            item = draw.choice("pf")
            table[tuple(item if draw.random() < 0.9 else draw.choice("pf") for _ in range(2))] += 1
        found = estimate_agreement(cohen, table)
        assert found
        assert found.low is not None
        assert found.high is not None
        held += found.low <= truth <= found.high
    assert held >= 0.85 * rounds
