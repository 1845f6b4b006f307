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
SCORED_OUTCOMES: frozenset[Outcome] = frozenset({"pass", "partial", "fail", "no_output", "invalid_output"})
"""The outcomes of trials that were really judged, and that are in a mean."""
