"""Which measure of agreement comes first, and why."""

import pytest

from seatrial.stats.raters import pair_agreements, rater_agreement

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
