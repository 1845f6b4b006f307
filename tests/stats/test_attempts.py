"""pass@k and pass^k: every way to draw k attempts, counted."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.stats.attempts import (
    estimate_pass_all_k,
    estimate_pass_at_k,
    pass_all_k,
    pass_at_k,
    stability,
)

ATTEMPTS = st.integers(0, 7).flatmap(lambda judged: st.tuples(st.just(judged), st.integers(0, judged)))


@given(ATTEMPTS, st.integers(1, 7))
def test_all_draws_are_counted(attempts, k):
    judged, passed = attempts
    draws = [sum(drawn) for drawn in combinations([1] * passed + [0] * (judged - passed), k)]
    if not draws:
        assert pass_at_k(judged, passed, k) is None
        assert pass_all_k(judged, passed, k) is None
        return
    assert pass_at_k(judged, passed, k) == pytest.approx(sum(each > 0 for each in draws) / len(draws))
    assert pass_all_k(judged, passed, k) == pytest.approx(sum(each == k for each in draws) / len(draws))


@given(ATTEMPTS, st.integers(1, 6))
def test_more_attempts_help_one_to_pass_and_hinder_all_from_it(attempts, k):
    judged, passed = attempts
    one, all_of_them = pass_at_k(judged, passed, k), pass_all_k(judged, passed, k)
    one_of_more, all_of_more = pass_at_k(judged, passed, k + 1), pass_all_k(judged, passed, k + 1)
    if one_of_more is not None and all_of_more is not None:
        assert one is not None
        assert all_of_them is not None
        assert one <= one_of_more + 1e-12
        assert all_of_more <= all_of_them + 1e-12


def test_estimates_are_over_tasks_with_enough_attempts():
    found = estimate_pass_at_k([(3, 1), (3, 3), (1, 0)], 2)
    assert found
    assert found.value == pytest.approx((2 / 3 + 1.0) / 2)
    assert found.groups == 2
    assert estimate_pass_at_k([(1, 1)], 2) is None
    every = estimate_pass_all_k([(2, 2)] * 10, 2)
    assert every
    assert every.value == 1.0 > every.low > 0.6


def test_families_say_less():
    tasks = [(2, 2)] * 10
    alone, together = estimate_pass_at_k(tasks, 2), estimate_pass_at_k(tasks, 2, clusters=["a"] * 5 + ["b"] * 5)
    assert alone
    assert together
    assert together.low < alone.low


def test_always_never_and_flaky():
    found = stability([(3, 3), (2, 0), (4, 1), (0, 0), (1, 1)])
    assert (found.tasks, found.always, found.never, found.flaky) == (4, 2, 1, 1)
