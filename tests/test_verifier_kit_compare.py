"""The verifier kit on numbers: tolerance, units, and whatever an agent may write instead of a number."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial import verifier_kit as kit


@pytest.mark.parametrize(
    ("actual", "expected", "tolerance", "score"),
    [
        (10, 10, {}, 1.0),
        (10.5, 10, {}, 0.0),
        (10.5, 10, {"abs": 0.5}, 1.0),
        (9.5, 10, {"abs": 0.5}, 1.0),
        (10.51, 10, {"abs": 0.5}, 0.0),
        (10.5, 10, {"rel": 0.05}, 1.0),
        (10.6, 10, {"rel": 0.05}, 0.0),
        (-10.5, -10, {"rel": 0.05}, 1.0),
        (10, -10, {"rel": 0.05}, 0.0),
        (10.6, 10, {"rel": 0.05, "abs": 1}, 1.0),
        (11, 10, {"rel": 0.1, "abs": 0.01}, 1.0),
        (11.05, 10, {"rel": 0.1, "abs": 0.1}, 0.0),
        (0.001, 0, {"rel": 0.5}, 0.0),
        (0.001, 0, {"rel": 0.5, "abs": 0.01}, 1.0),
    ],
    ids=str,
)
def test_within_the_wider_tolerance_counts_in_full(
    actual: float, expected: float, tolerance: dict[str, Any], score: float
):
    assert kit.compare("x", actual, expected, **tolerance).score == score


@pytest.mark.parametrize(
    ("actual", "expected", "rel"), [(1.02, 1.0, 0.02), (1.1, 1.0, 0.1), (0.98, 1.0, 0.02), (5.1, 5.0, 0.02)], ids=str
)
def test_an_answer_exactly_at_the_tolerance_is_within_it(actual: float, expected: float, rel: float):
    """On paper 1.02 is within 2 % of 1; the last bit of a float must not decide."""
    assert kit.compare("x", actual, expected, rel=rel).score == 1.0


@pytest.mark.parametrize(
    ("written", "unit", "value"),
    [
        (12.5, "V", 12.5),
        ("12.5", "V", 12.5),
        ("12.5 V", "V", 12.5),
        (" 12.5V ", "V", 12.5),
        ("12.5 mV", "V", 0.0125),
        ("3 kN", "N", 3000),
        ("0.003 MN", "kN", 3),
        ("2 in", "mm", 50.8),
        ("1 ft", "in", 12),
        ("5 µm", "mm", 0.005),
        ("5 um", "mm", 0.005),
        ("4.7 kΩ", "ohm", 4700),
        ("2 bar", "kPa", 200),
        ("1 kg", "g", 1000),
        ("500 mL", "L", 0.5),
        ("2 min", "s", 120),
        ("36 km/h", "m/s", 10),
        ("180 deg", "rad", math.pi),
        ("1 kWh", "J", 3.6e6),
        ("2.35 %", "%", 2.35),
        ("50 %", "", 0.5),
        ("50%", "", 0.5),
        ("0.5", "%", 0.5),
        ("7 widgets", "widgets", 7),
        ("-1.5e3 mA", "A", -1.5),
        ("+.5", "", 0.5),
        ("1.", "", 1),
        (10**15, "", 1e15),
    ],
)
def test_a_quantity_is_converted_to_the_unit_asked_for(written: Any, unit: str, value: float):
    assert kit.quantity(written, unit) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("written", "unit"),
    [
        ("5 A", "V"),
        ("5 m", "s"),
        ("5 mm", "mm2"),
        ("5 apples", "V"),
        ("5 V", ""),
        ("1,000", ""),
        ("0x10", ""),
        ("1e", ""),
    ],
)
def test_a_unit_that_does_not_convert_is_the_agents_problem(written: str, unit: str):
    with pytest.raises(kit.OutputProblem) as caught:
        kit.quantity(written, unit)
    assert caught.value.category == "unit_mismatch"
    dimension = kit.compare("x", written, 5, rel=1, unit=unit)
    assert (dimension.score, dimension.actual) == (0.0, repr(written))
    assert "does not convert" in dimension.evidence


def test_an_unknown_expected_unit_is_the_verifiers_problem():
    with pytest.raises(kit.KitError, match="'furlong' is not in the kit") as caught:
        kit.compare("x", "5 m", 5, unit="furlong")
    assert caught.value.code == "unknown_unit"


NOT_NUMBERS = {
    "none": None,
    "true": True,
    "false": False,
    "nan": math.nan,
    "infinity": math.inf,
    "minus infinity": -math.inf,
    "a list": [1],
    "an object": {"value": 1},
    "empty text": "",
    "words": "about 5",
    "a word for nan": "nan",
    "a sign": "-",
    "digits of another script": "٣",
    "overflowing text": "1e400",
    "a long number": "9" * 5000,
    "a huge integer": 10**400,
    "an integer too long to print": 10**5000,
    "a million spaces": " " * 10**6,
    "a long list": list(range(10**5)),
    "a lone surrogate": "\ud800",
    "bytes": b"5",
}


@pytest.mark.parametrize("name", NOT_NUMBERS)
def test_what_is_not_a_number_scores_nothing_and_breaks_nothing(name: str):
    dimension = kit.compare("x", NOT_NUMBERS[name], 5, rel=1e6)
    assert dimension.score == 0.0
    assert "number" in dimension.evidence
    assert len(dimension.evidence) < 200
    assert len(str(dimension.actual)) <= 60
    json.dumps(kit.details_of([dimension]), allow_nan=False).encode()


def test_spaces_around_a_number_do_not_matter_however_many():
    assert kit.quantity(f"{' ' * 10**5}5{' ' * 10**5}V", "V") == 5


@given(st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.integers()))
def test_no_answer_of_an_agent_makes_a_comparison_raise(actual: Any):
    dimension = kit.compare("x", actual, 1.5, rel=0.1, unit="V")
    assert dimension.score in (0.0, 1.0)
    json.dumps(kit.details_of([dimension]), allow_nan=False)


@given(
    expected=st.floats(-1e100, 1e100),
    rel=st.floats(0, 1),
    off=st.floats(-2, 2),
)
def test_a_wider_tolerance_never_costs_anything(expected: float, rel: float, off: float):
    actual = expected * (1 + off)
    assert kit.compare("x", actual, expected, rel=rel).score <= kit.compare("x", actual, expected, rel=2 * rel).score


def test_the_evidence_says_what_was_found_and_what_was_expected():
    right = kit.compare("drop", "9.41 V", 9.4, rel=0.005, unit="V", weight=2)
    assert right == kit.Dimension("drop", 1.0, 1.0, 2, "found 9.41, expected 9.4 V ± 0.047", 9.4, 9.41)
    wrong = kit.compare("drop", "lots", 9.4, unit="V")
    assert wrong.evidence == "found 'lots', which is not a number; expected 9.4 V ± 0"


@pytest.mark.parametrize(("passed", "score"), [(True, 1.0), (False, 0.0)])
def test_a_check_is_right_or_wrong(passed: bool, score: float):
    assert kit.check("ok", passed, "seen", weight=3) == kit.Dimension("ok", score, 1.0, 3, "seen")


def test_a_share_counts_the_cases_that_are_right():
    assert kit.share("rows", [], 4) == kit.Dimension("rows", 4, 4, 1.0, "all 4 right")
    some = kit.share("rows", [f"row {number}" for number in range(5)], 8, weight=2)
    assert (some.score, some.max_score, some.weight) == (3, 8, 2)
    assert some.evidence == "5 of 8 wrong: row 0; row 1; row 2"
    assert kit.roll_up([some]) == 0.375


def test_a_share_of_no_cases_is_the_verifiers_problem():
    with pytest.raises(kit.KitError) as caught:
        kit.roll_up([kit.share("rows", [], 0)])
    assert caught.value.code == "bad_max_score"
