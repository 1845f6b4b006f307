"""A verifier against people: the table, its shares, and what weights do to them."""

import pytest

from seatrial.stats.diagnostic import Reviewed, confusion_of, effective_size, weighted_share
from seatrial.stats.intervals import wilson


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
