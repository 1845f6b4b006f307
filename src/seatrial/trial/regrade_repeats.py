"""What it says about a verifier that it was run several times on the same end state."""

from collections.abc import Sequence
from statistics import pstdev

from seatrial.model.evaluation import ConfidenceMetadata, ErrorSource, ErrorTag, EvaluationResult

NONDETERMINISTIC = "nondeterministic_verifier"


def with_repeats(evaluation: EvaluationResult, rewards: Sequence[float]) -> EvaluationResult:
    """The first evaluation of several, with how often the verifier was run and how far its rewards were apart."""
    if len(rewards) < 2:
        return evaluation
    spread = {"verifier_repeats": len(rewards), "verifier_reward_sd": pstdev(rewards)}
    confidence = (evaluation.confidence or ConfidenceMetadata()).model_copy(update=spread)
    changes: dict[str, object] = {"confidence": confidence}
    if len(set(rewards)) > 1:
        listed = ", ".join(f"{reward:.6g}" for reward in rewards)
        told = f"the verifier gave different rewards for the same end state: {listed}; the first one counts"
        tag = ErrorTag(category=NONDETERMINISTIC, description=told, source=ErrorSource.MECHANICAL)
        changes["error_taxonomy"] = [*(evaluation.error_taxonomy or ()), tag]
    return evaluation.model_copy(update=changes)
