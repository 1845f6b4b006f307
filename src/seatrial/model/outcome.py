"""Outcome: the one word that a trial amounts to."""

from typing import Literal

Outcome = Literal[
    "pass",
    "partial",
    "fail",
    "invalid_output",
    "no_output",
    "verifier_error",
    "infrastructure_error",
    "cancelled",
]
PASS_THRESHOLD = 1.0
"""The reward from which on a trial has passed, where no option says otherwise."""

ROUNDING = 1e-9
"""Rewards that differ by less are the same: 0.6 + 0.3 + 0.1 is less than 1 in floating point."""

SCORED_OUTCOMES: frozenset[Outcome] = frozenset({"pass", "partial", "fail", "no_output", "invalid_output"})
"""The outcomes of trials that were really judged, and that are in a mean."""


def has_passed(reward: float, threshold: float) -> bool:
    """Whether a reward is a pass."""
    return reward >= threshold - ROUNDING
