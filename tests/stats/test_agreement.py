"""Agreement against published tables, against statsmodels, and by what must hold of any table."""

import random
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
    estimate_agreement,
    fleiss,
    gwet,
    items_of,
    krippendorff,
    largest_share,
    pair_agreements,
    pairs_of,
    percent,
    rater_agreement,
)
from seatrial.stats.estimates import wilson

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


LABELS = ("pass", "fail")


def said(*rows: str):
    """A row is an item; its letters are what raters a, b, c … said, with a dot for nothing."""
    words = {"p": "pass", "f": "fail"}
    return [{who: words[what] for who, what in zip("abcd", row, strict=False) if what != "."} for row in rows]


@pytest.mark.parametrize(
    ("rows", "metric", "why"),
    [
        (["pp", "ff", "pf", "p."], "cohen_kappa", "there are two raters"),
        (["ppf", "fff", "ppp"], "fleiss_kappa", "every item that was judged more than once has 3 ratings"),
        (["pp.", "f.f", ".pf"], "fleiss_kappa", "2 ratings"),
        (["ppf", "ff.", "ppp"], "krippendorff_alpha", "not all items have equally many ratings"),
        (["pp"] * 19 + ["pf"], "gwet_ac1", "98% of what was said is the same"),
        (["pp"] * 199 + ["pf"], "gwet_ac1", "99% of what was said is the same"),
        (["pp"] * 5, "gwet_ac1", "100% of what was said is the same"),
        (["pp", "p.", ".f"], None, "it takes two items that two raters judged, found 1"),
        ([], None, "found 0"),
    ],
)
def test_the_measure_to_look_at_first(rows, metric, why):
    found = rater_agreement(said(*rows), labels=LABELS)
    assert found.headline == metric
    assert why in found.reason
    assert (found.first is None) == (metric is None)


def test_all_measures_are_there_where_they_apply():
    two = rater_agreement(said("pp", "ff", "pf", "p."), labels=LABELS)
    assert set(two.measures) == {"percent", "cohen_kappa", "fleiss_kappa", "krippendorff_alpha", "gwet_ac1"}
    assert (two.raters, two.items, two.shared) == (("a", "b"), 4, 3)
    three = rater_agreement(said("ppf", "ff.", "ppp"), labels=LABELS)
    assert set(three.measures) == {"percent", "krippendorff_alpha", "gwet_ac1"}


def test_one_label_alone_has_no_first_measure_if_nobody_knows_of_another():
    found = rater_agreement(said("pp", "pp"))
    assert (found.headline, found.first) == (None, None)
    assert "chance cannot be told" in found.reason


def test_every_two_raters_on_what_both_judged():
    one, other = pair_agreements(said("pp.", "ff.", "pf.", "p.p"))
    assert (one.first, one.second, one.items) == ("a", "b", 3)
    assert one.percent == pytest.approx(2 / 3)
    assert one.kappa == pytest.approx(0.4)
    assert (other.second, other.items, other.percent, other.kappa) == ("c", 1, None, None)


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
