"""Sequences of states: transitions, two kinds of likeness, and their p-values."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.stats.sequences import cosine, levenshtein, likeness, transitions

STATES = "abcd"
words = st.text(STATES, max_size=25)


def plain_distance(one: str, other: str) -> int:
    """The textbook's way: a whole table, row by row."""
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, 1):
        before, row[0] = row[0], at
        for place, compared in enumerate(other, 1):
            before, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, before + (letter != compared))
    return row[-1]


@given(st.lists(words, max_size=5))
def test_rows_sum_to_1_or_are_marked_as_empty(sequences):
    rows = transitions(sequences, STATES)
    followed = {letter for each in sequences for letter in each[:-1]}
    for state, row in zip(STATES, rows, strict=True):
        assert (row is None) == (state not in followed)
        assert row is None or sum(row) == pytest.approx(1.0)


def test_transitions_of_several_sequences_are_counted_together_and_not_across_their_ends():
    row, empty = transitions(["aab", "ab"], "ab")
    assert row == pytest.approx((1 / 3, 2 / 3))
    assert empty is None


@given(words, words)
def test_the_distance_is_that_of_the_textbook(one, other):
    assert levenshtein(one, other) == plain_distance(one, other)


@given(words)
def test_a_matrix_is_like_itself(word):
    matrix = transitions([word], STATES)
    found = cosine(matrix, matrix)
    assert found == pytest.approx(1.0) if len(word) > 1 else found is None


def test_matrices_without_a_transition_in_common_are_not_alike():
    assert cosine(transitions(["ab"], "abc"), transitions(["bc"], "abc")) == 0.0


@given(words.filter(bool), st.lists(words, min_size=1, max_size=4), st.randoms())
def test_neither_the_order_of_others_nor_of_the_draws_changes_a_p(word, others, order):
    found = likeness(word, others, STATES, draws=19)
    shuffled = list(others)
    order.shuffle(shuffled)
    assert likeness(word, shuffled, STATES, draws=19) == found
    assert found is not None
    assert 0.05 <= found.distance_p <= 1.0
    assert found.cosine_p is None or 0.05 <= found.cosine_p <= 1.0


def test_orders_of_the_same_states_that_are_as_alike_have_the_same_p():
    drawn = random.Random(2)
    found: dict[float, set[float]] = {}
    for _ in range(40):
        alike = likeness("".join(drawn.sample("aaabbbccd", 9)), ["abcabcabd"], STATES, draws=39)
        assert alike is not None
        found.setdefault(alike.distance, set()).add(alike.distance_p)
    assert len(found) > 2
    assert all(len(each) == 1 for each in found.values())


def test_an_order_in_common_is_found_and_a_composition_in_common_is_not():
    ordered = "abcd" * 6
    found = likeness(ordered, [ordered], STATES)
    assert found is not None
    assert (found.cosine_p, found.distance, found.normalised, found.distance_p) == (0.005, 0, 0, 0.005)
    same = likeness("a" * 20, ["a" * 20], STATES)
    assert same is not None
    assert (same.cosine, same.cosine_p, same.distance_p) == (1.0, 1.0, 1.0)


def test_p_values_of_random_orders_are_as_often_small_as_they_claim():
    drawn = random.Random(1)
    words = ["".join(drawn.choices(STATES, k=20)) for _ in range(201)]
    found = [likeness(word, words[:3], STATES, draws=39) for word in words[3:]]
    assert sum(each is not None and each.distance_p <= 0.1 for each in found) / len(found) < 0.16


def test_nothing_to_compare_is_none():
    assert likeness("", ["ab"], STATES) is None
    assert likeness("ab", [], STATES) is None
