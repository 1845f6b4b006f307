"""Mechanical error tags that come for free: a wrong number that is right but for its unit or its sign.

Looks at breakdown entries that give both an expected and an actual number, as the verifier kit writes them.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from seatrial.scoring.findings import Finding, excerpt

_TOLERANCE = 0.005
_EXPECTED = ("expected", "reference")
_ACTUAL = ("actual", "found", "got")
_FACTORS = {
    **{10.0**power: f"a factor of 10^{power}" for power in range(1, 13)},
    25.4: "inches and millimetres",
    2.54: "inches and centimetres",
    1 / 0.0254: "inches and metres",
    1 / 0.3048: "feet and metres",
    12.0: "inches and feet",
    1.609344: "miles and kilometres",
    3.6: "m/s and km/h",
    60.0: "minutes",
    3600.0: "hours and seconds",
    86400.0: "days and seconds",
    180 / math.pi: "degrees and radians",
    1 / 0.45359237: "pounds and kilograms",
    9.80665: "kilogram-force and newtons",
    4.184: "calories and joules",
    6.894757293: "psi and kPa",
    6894.757293: "psi and pascals",
    4.4482216153: "pound-force and newtons",
    3.785411784: "US gallons and litres",
}


def classify(breakdown: Mapping[str, Any] | None) -> list[Finding]:
    """A unit_mismatch or sign_error for every scored entry whose number gives itself away."""
    findings = []
    for name, expected, actual in _wrong_numbers(breakdown or {}):
        ratio = actual / expected
        if not math.isfinite(ratio):
            continue
        if math.isclose(ratio, -1.0, rel_tol=_TOLERANCE):
            findings.append(Finding("sign_error", f"{excerpt(name)}: found {actual:g}, expected {expected:g}"))
        elif what := _unit_behind(ratio):
            said = f"{excerpt(name)}: found {actual:g}, expected {expected:g}; they differ by {what}"
            findings.append(Finding("unit_mismatch", said))
    return findings


def _unit_behind(ratio: float) -> str | None:
    size = max(ratio, 1 / ratio) if ratio > 0 else 0.0
    return next((what for factor, what in _FACTORS.items() if math.isclose(size, factor, rel_tol=_TOLERANCE)), None)


def _wrong_numbers(breakdown: Mapping[str, Any]) -> Iterator[tuple[str, float, float]]:
    for name, entry in breakdown.items():
        if not isinstance(entry, dict):
            continue
        expected, actual = _number(entry, _EXPECTED), _number(entry, _ACTUAL)
        score, full = _number(entry, ("score",)), _number(entry, ("max_score",))
        earned_all = score is not None and score >= (1.0 if full is None else full)
        if expected and actual is not None and not earned_all:
            yield name, expected, actual


def _number(entry: Mapping[str, Any], names: tuple[str, ...]) -> float | None:
    for name in names:
        value = entry.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300:
            return float(value)
    return None
