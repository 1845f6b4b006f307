"""Wrong numbers that give themselves away."""

import pytest

from seatrial.scoring.classify import classify


def entry(expected, actual, score=0.0, **more):
    return {"x": {"score": score, "max_score": 1.0, "expected": expected, "actual": actual, **more}}


@pytest.mark.parametrize(
    ("expected", "actual", "said"),
    [
        (9.4, 9400.0, "10^3"),
        (9.4, 0.0094, "10^3"),
        (2.0, 20.05, "10^1"),
        (1.0, 25.4, "inches and millimetres"),
        (254.0, 10.0, "inches and millimetres"),
        (10.0, 3.048, "feet and metres"),
        (10.0, 36.0, "m/s and km/h"),
        (1.0, 57.2958, "degrees and radians"),
        (100, 45.36, "pounds and kilograms"),
        (2.0, 7200, "hours and seconds"),
    ],
)
def test_a_ratio_of_units_is_a_unit_mismatch(expected, actual, said):
    (finding,) = classify(entry(expected, actual))
    assert finding.code == "unit_mismatch"
    assert said in finding.message


def test_the_opposite_number_is_a_sign_error():
    (finding,) = classify(entry(3.2, -3.2))
    assert (finding.code, finding.message) == ("sign_error", "'x': found -3.2, expected 3.2")


@pytest.mark.parametrize(("expected", "actual"), [(2.0, 3.0), (2.0, 10.0), (0, 5), (5, 0), (1, -1000)])
def test_any_other_wrong_number_is_just_wrong(expected, actual):
    assert classify(entry(expected, actual)) == []


def test_a_dimension_with_the_full_score_is_left_alone():
    assert classify(entry(1.0, 1000.0, score=1.0)) == []
    assert classify({"x": {"score": 5, "max_score": 5, "expected": 1.0, "actual": 1000.0}}) == []


def test_other_names_for_the_two_numbers_are_understood():
    (finding,) = classify({"x": {"score": 0, "reference": 1, "got": 1000}})
    assert finding.code == "unit_mismatch"


@pytest.mark.parametrize(
    "odd",
    [
        None,
        {},
        {"x": 3},
        {"x": {}},
        entry("1", 1000),
        entry(True, 1000),
        entry(None, 1),
        entry(10**400, 1),
        entry(1e-300, 1e299),
        entry(1, [1000]),
        {"x": {"expected": 1, "actual": 1000, "score": "none", "max_score": []}},
    ],
)
def test_odd_breakdowns_raise_nothing(odd):
    classify(odd)
