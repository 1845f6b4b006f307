"""What is said of a trial beside its status in formats that were made for tests: on one line, with strangers' words."""

from seatrial.report.text import format_reward, harmless
from seatrial.store.index import TrialEntry

_LONGEST = 500


def case_message(trial: TrialEntry, threshold: float) -> str:
    """Why a trial has no full reward, and what to know of one that has; empty when there is nothing to say."""
    return harmless("; ".join(_parts(trial, threshold)))[:_LONGEST]


def _parts(trial: TrialEntry, threshold: float) -> list[str]:
    if trial.outcome == "cancelled":
        return ["cancelled" if trial.tries else "not run yet"]
    if trial.outcome == "infrastructure_error":
        return [trial.failure or "the trial could not be run"]
    parts = []
    if trial.outcome == "verifier_error":
        parts.append("the verifier could not judge")
    elif trial.outcome != "pass":
        parts.append(f"{trial.outcome}: reward {format_reward(trial.reward)}, {threshold:g} to pass")
    if trial.disputed_reward is not None:
        parts.append(f"disputed: {format_reward(trial.disputed_reward)} on the system as the agent left it")
    if trial.failed_step is not None:
        parts.append(f"first failed step: {trial.failed_step}")
    if trial.tags:
        parts.append(f"tags: {', '.join(trial.tags)}")
    return [*parts, *trial.warnings]
