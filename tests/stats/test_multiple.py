"""Holm's adjustment beside statsmodels."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from seatrial.stats.multiple import holm


@pytest.mark.parametrize("count", [1, 2, 5, 12])
def test_statsmodels_adjusts_the_same(count):
    chance = random.Random(count)
    p_values = [chance.choice((0.0, 0.01, 0.5, 1.0, chance.random() / 10)) for _ in range(count)]
    assert holm(p_values) == pytest.approx(list(multipletests(p_values, method="holm")[1]))


def test_nothing_to_adjust():
    assert holm([]) == []
    assert holm([0.03]) == [0.03]


@given(st.lists(st.floats(0.0, 1.0), max_size=12))
def test_none_gets_smaller_and_their_order_stays(p_values):
    adjusted = holm(p_values)
    assert all(before <= after <= 1.0 for before, after in zip(p_values, adjusted, strict=True))
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    assert [adjusted[index] for index in order] == sorted(adjusted)
