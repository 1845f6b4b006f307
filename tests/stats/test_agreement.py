"""Agreement against published tables, against statsmodels, and by what must hold of any table."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.inter_rater import cohens_kappa, fleiss_kappa

from seatrial.stats.agreement import (
    Disagreement,
    Table,
    Verdicts,
    cohen,
    fleiss,
    gwet,
    items_of,
    krippendorff,
    largest_share,
    pairs_of,
    percent,
)

COHEN_1960 = [[88, 14, 18], [10, 40, 10], [2, 6, 12]]

FLEISS_1971 = """
    0 0 0 6 0   0 3 0 0 3   0 1 4 0 1   0 0 0 0 6   0 3 0 3 0   2 0 4 0 0   0 0 4 0 2   2 0 3 1 0   2 0 0 4 0
    0 0 0 0 6   1 0 0 5 0   1 1 0 4 0   0 3 3 0 0   1 0 0 5 0   0 2 0 3 1   0 0 5 0 1   3 0 0 1 2   5 1 0 0 0
    0 2 0 4 0   1 0 2 0 3   0 0 0 0 6   0 1 0 5 0   0 2 0 1 3   2 0 0 4 0   1 0 0 4 1   0 5 0 1 0   4 0 0 0 2
    0 2 0 4 0   1 0 5 0 0   0 0 0 0 6
"""

# Krippendorff (2011), four observers and twelve units; Gwet's handbook has the same data.
KRIPPENDORFF = {
    "A": "1 2 3 3 2 1 4 1 2 . . .",
    "B": "1 2 3 3 2 2 4 1 2 5 . 3",
    "C": ". 3 3 3 2 3 4 2 2 5 1 .",
    "D": "1 2 3 3 2 4 4 1 2 5 1 .",
}

labels = st.sampled_from(["a", "b", "c"])
tables = st.lists(st.tuples(labels, labels), min_size=2, max_size=30).map(Counter)
ratings = st.lists(st.dictionaries(st.sampled_from("PQRS"), labels), min_size=2, max_size=20)


def value(found: Disagreement | None) -> float | None:
    return found.agreement if found else None


def pair_table(rows) -> dict[Verdicts, int]:
    return {(str(one), str(other)): count for one, row in enumerate(rows) for other, count in enumerate(row)}


def fleiss_rows():
    numbers = [int(word) for word in FLEISS_1971.split()]
    return [numbers[start : start + 5] for start in range(0, len(numbers), 5)]


def fleiss_items():
    return Counter(tuple(kind for kind, count in enumerate(row) for _ in range(count)) for row in fleiss_rows())


def units():
    columns = zip(*(row.split() for row in KRIPPENDORFF.values()), strict=True)
    return [{who: int(said) for who, said in zip("ABCD", column, strict=True) if said != "."} for column in columns]


def test_cohen_1960():
    assert value(cohen(pair_table(COHEN_1960))) == pytest.approx(0.492, abs=5e-4)


def test_fleiss_1971():
    rows = fleiss_rows()
    assert [sum(column) for column in zip(*rows, strict=True)] == [26, 26, 30, 55, 43]
    assert value(fleiss(fleiss_items())) == pytest.approx(0.430, abs=5e-4)


@pytest.mark.parametrize(("scale", "published"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_krippendorff_with_missing_values(scale, published):
    assert value(krippendorff(items_of(units()), scale)) == pytest.approx(published, abs=5e-4)


def test_gwet_where_kappa_is_paradoxical():
    table: Table = {("+", "+"): 118, ("+", "-"): 5, ("-", "+"): 2, ("-", "-"): 0}
    assert value(cohen(table)) == pytest.approx(-0.0234, abs=5e-5)
    assert value(gwet(table)) == pytest.approx(0.9408, abs=5e-5)


def test_gwet_with_several_raters_and_missing_values():
    assert value(gwet(items_of(units()))) == pytest.approx(0.77544, abs=5e-6)


@pytest.mark.parametrize(("ours", "theirs"), [("none", None), ("linear", "linear"), ("quadratic", "quadratic")])
def test_cohen_is_that_of_statsmodels(ours, theirs):
    table: Table = {(float(one), float(other)): count for (one, other), count in pair_table(COHEN_1960).items()}
    assert value(cohen(table, ours)) == pytest.approx(cohens_kappa(COHEN_1960, wt=theirs, return_results=False))


def test_fleiss_is_that_of_statsmodels():
    assert value(fleiss(fleiss_items())) == pytest.approx(fleiss_kappa(fleiss_rows()))


def test_percent_is_the_share_of_pairs_that_agree():
    assert value(percent({("a", "a"): 3, ("a", "b"): 1})) == 0.75
    assert value(percent({("a", "a", "b"): 1, ("a", "a", "a"): 1})) == pytest.approx((1 / 3 + 1) / 2)


@pytest.mark.parametrize("items", [{}, {("a", "b"): 1}, {("a",): 5, ("b",): 5}, {("a",): 3, ("a", "b"): 1}])
def test_no_number_for_fewer_than_two_items_that_two_judged(items):
    assert [measure(items) for measure in (percent, fleiss, krippendorff, gwet)] == [None] * 4
    pairs = {labels: count for labels, count in items.items() if len(labels) == 2}
    assert cohen(pairs) is None


def test_where_everybody_always_says_the_same_chance_cannot_be_told_from_agreement():
    items: Table = {("pass", "pass"): 40}
    assert [value(measure(items)) for measure in (cohen, fleiss, krippendorff)] == [None] * 3
    assert value(percent(items)) == 1.0
    assert gwet(items) is None
    assert value(gwet(items, ("pass", "fail"))) == 1.0


def test_fleiss_needs_equally_many_ratings_of_every_item():
    assert fleiss({("a", "b"): 3, ("a", "a", "b"): 3}) is None


def test_order_and_distance_need_numbers():
    with pytest.raises(TypeError, match="the label is 'a', expected a number"):
        krippendorff({("a", "b"): 3}, "interval")


def test_who_said_nothing_is_in_no_table():
    said = [{"P": "a"}, {"P": "a", "Q": "b"}, {}, {"Q": "b", "R": "b"}]
    assert items_of(said) == {("a",): 1, ("a", "b"): 1, ("b", "b"): 1}
    assert pairs_of(said, "Q", "P") == {("b", "a"): 1}
    assert largest_share({("a", "b"): 1, ("b", "b"): 1}) == 0.75
    assert largest_share({}) is None


@given(tables)
def test_neither_the_order_of_raters_nor_the_names_of_labels_matter(table):
    turned: Table = {(other, one): count for (one, other), count in table.items()}
    renamed: Table = {(one.translate(_OTHER), other.translate(_OTHER)): count for (one, other), count in table.items()}
    for measure in (percent, cohen, fleiss, krippendorff, gwet):
        assert value(measure(turned)) == pytest.approx(value(measure(table)))
        assert value(measure(renamed)) == pytest.approx(value(measure(table)))


_OTHER = str.maketrans("abc", "cab")


@given(ratings)
def test_within_bounds_and_1_only_where_nobody_disagrees(said):
    items = items_of(said)
    split = any(len(set(each)) > 1 for each in items)
    for measure in (percent, fleiss, krippendorff, gwet):
        found = value(measure(items))
        if found is not None:
            assert found <= 1.0
            assert (found == 1.0) == (not split)
    if (same := value(percent(items))) is not None:
        assert same >= 0.0


@given(tables)
def test_kappa_of_two_is_at_least_minus_1(table):
    found = value(cohen(table))
    assert found is None or -1.0 - 1e-9 <= found <= 1.0
