from hypothesis import given
from hypothesis import strategies as st

from seatrial.analysis.front import on_front

POINTS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12)


def test_whoever_is_beaten_in_both_is_behind_the_front():
    assert on_front([(1.0, 0.5), (2.0, 0.4), (2.0, 0.9), (3.0, 0.9)]) == [True, False, True, False]


def test_equals_are_on_it_together():
    assert on_front([(1.0, 0.5), (1.0, 0.5)]) == [True, True]


@given(POINTS)
def test_the_cheapest_of_the_best_is_on_it_and_the_order_does_not_matter(points):
    front = on_front(points)
    best = max(worth for _, worth in points)
    assert front[points.index((min(cost for cost, worth in points if worth == best), best))]
    assert on_front(points[::-1]) == front[::-1]
