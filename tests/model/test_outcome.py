"""Rewards, means and shares as people read them: rounding makes no verdict another one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.model.outcome import ROUNDING, format_mean, format_range, format_reward, has_passed


@pytest.mark.parametrize(
    ("reward", "text"),
    [
        (None, "-"),
        (1.0, "1"),
        (0.0, "0"),
        (0.123456789, "0.123457"),
        (2 / 3, "0.666667"),
        (0.1 + 0.2, "0.3"),
        (0.9999999, "0.9999999"),
        (0.8999999, "0.8999999"),
        (1e-12, "1e-12"),
    ],
)
def test_rewards(reward, text):
    assert format_reward(reward) == text


@given(st.floats(0.0, 1.0), st.sampled_from([0.3, 0.5, 0.75, 0.9, 0.95, 1.0]))
def test_a_reward_that_is_shown_as_a_pass_is_one(reward, threshold):
    assert (float(format_reward(reward)) >= threshold) <= has_passed(reward, threshold)


@pytest.mark.parametrize(
    ("mean", "spec", "shown"),
    [
        (1.0, ".3f", "1.000"),
        (0.9996, ".3f", "<1.000"),
        (0.9994, ".3f", "0.999"),
        (1.0004, ".3f", ">1.000"),
        (0.9999999, ".1%", "<100.0%"),
        (0.99996, ".4g", "<1"),
        (0.5, ".1%", "50.0%"),
        (1.2, ".3f", "1.200"),
        (0.0, ".3f", "0.000"),
        (0.0004, ".3f", ">0.000"),
        (0.0004, ".1%", ">0.0%"),
        (0.003, ".0%", ">0%"),
        (-0.0004, ".3f", "<0.000"),
        (-1.0, ".3f", "-1.000"),
        (None, ".3f", "-"),
    ],
)
def test_rounding_makes_no_mean_a_0_or_a_1(mean, spec, shown):
    assert format_mean(mean, spec) == shown


@given(st.floats(-2.0, 2.0), st.sampled_from([".1f", ".2f", ".3f", ".0%", ".1%", ".4g"]))
def test_what_is_shown_as_a_0_or_a_1_is_one(mean, spec):
    shown = format_mean(mean, spec)
    for bound in (0.0, 1.0):
        assert (shown == f"{bound:{spec}}") <= (abs(mean - bound) <= ROUNDING)
    assert shown != f"{-0.0:{spec}}"


@pytest.mark.parametrize(
    ("low", "high", "spec", "shown"),
    [
        (0.25, 0.75, ".3f", "0.250 to 0.750"),
        (0.0002, 0.9999, ".3f", ">0.000 to <1.000"),
        (0.0, 1.0, ".1%", "0.0 to 100.0%"),
        (0.0002, 0.9999, ".1%", ">0.0 to <100.0%"),
    ],
)
def test_neither_are_the_ends_of_an_interval(low, high, spec, shown):
    assert format_range(low, high, spec) == shown
