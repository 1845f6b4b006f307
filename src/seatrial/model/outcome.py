"""What a trial amounts to, in one word and as a number that people read."""

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


# Rewards, means and shares as people read them. Rounding changes no verdict: only a 0 is shown as 0, only a 1 as 1.


def format_reward(reward: float | None) -> str:
    """A reward with six digits, a dash for none; with all of them where six would make a rounder number of it.

    So 0.9999999 is not shown as the pass that it is not, nor 0.8999999 where 0.9 is a pass.
    """
    if reward is None:
        return "-"
    text = f"{reward:.6g}"
    is_rounder = text == f"{reward:.5g}" and abs(float(text) - reward) > ROUNDING
    return repr(reward) if is_rounder else text


def format_mean(mean: float | None, spec: str = ".3f") -> str:
    """A mean or a share, a dash for none. What only rounding would make a 0 or a 1 has a `>` or a `<` before it."""
    if mean is None:
        return "-"
    text = f"{mean:z{spec}}"
    for bound in (0.0, 1.0):
        if abs(mean - bound) > ROUNDING and text == f"{bound:{spec}}":
            return f"{'<' if mean < bound else '>'}{text}"
    return text


def format_range(low: float, high: float, spec: str = ".3f") -> str:
    """From where to where a mean or a share may be; of percents, only the higher one has the sign."""
    return f"{format_mean(low, spec).removesuffix('%')} to {format_mean(high, spec)}"
