"""A verifier that was asked several times about the same end state: what its verdicts amount to together.

The lowest reward counts, as it does between two verdicts that are disputed. An agent must not profit from a verifier
that rolls dice, a mean would be a reward that no verifier ever gave, and the first one would be luck. All are kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import stdev
from typing import Literal

from seatrial.model.evaluation import NONDETERMINISTIC, ConfidenceMetadata, EvaluationResult
from seatrial.scoring.findings import Finding, note, with_finding
from seatrial.scoring.sameness import differences

RepeatPlace = Literal["fresh", "same"]
"""Where a verifier was asked again: in a sandbox laid out anew each time, or in the one it had worked in before."""

_SHOWN = 20


@dataclass(frozen=True, slots=True)
class RepeatedVerdicts:
    """All verdicts in their order, None where there was none; places in the breakdown at which they differ."""

    rewards: tuple[float | None, ...]
    differing: tuple[str, ...]
    place: RepeatPlace

    @property
    def agree(self) -> bool:
        """Whether all of them say the same."""
        return len(set(self.rewards)) == 1 and not self.differing


def compare_verdicts(evaluations: Sequence[EvaluationResult], place: RepeatPlace) -> RepeatedVerdicts:
    """What several evaluations of the same end state say. Those without a verdict have no reward."""
    judged = [each for each in evaluations if each.validity.verifier_completed]
    differing = [where for each in judged[1:] for where in differences(judged[0].breakdown, each.breakdown)]
    rewards = tuple(each.reward if each.validity.verifier_completed else None for each in evaluations)
    return RepeatedVerdicts(rewards, tuple(dict.fromkeys(differing)), place)


def lowest(rewards: Sequence[float | None]) -> int:
    """Which of some verdicts counts: the first of those with the lowest reward; the first where there is none."""
    given = [(reward, number) for number, reward in enumerate(rewards) if reward is not None]
    return min(given)[1] if given else 0


def spread_of(rewards: Sequence[float | None]) -> ConfidenceMetadata:
    """How often a verifier gave a verdict, and how far its rewards were apart."""
    given = [reward for reward in rewards if reward is not None]
    spread = stdev(given) if len(given) > 1 else None
    return ConfidenceMetadata(verifier_repeats=len(given), verifier_reward_sd=spread)


def with_repeats(evaluation: EvaluationResult, repeated: RepeatedVerdicts) -> EvaluationResult:
    """The evaluation that counts, with how far all verdicts spread, and a tag if they differ."""
    known, spread = evaluation.confidence or ConfidenceMetadata(), spread_of(repeated.rewards)
    sure = known.model_copy(update=spread.model_dump(include={"verifier_repeats", "verifier_reward_sd"}))
    evaluation = evaluation.model_copy(update={"confidence": sure})
    if not repeated.agree:
        evaluation = with_finding(evaluation, Finding(NONDETERMINISTIC, tell_difference(repeated)))
    if repeated.place == "same":
        said = "repeats ran one after the other in the same sandbox, where what the verifier leaves may matter to them"
        evaluation = with_finding(evaluation, note(said))
    return evaluation


def tell_difference(repeated: RepeatedVerdicts) -> str:
    """How the verdicts on one end state differ, in words."""
    asked = f"asked {len(repeated.rewards)} times about the same end state, the verifier"
    if len(set(repeated.rewards)) > 1:
        return f"{asked} gave {tell_rewards(repeated.rewards)}; the lowest one counts"
    return (
        f"{asked} gave {tell_rewards(repeated.rewards[:1])} each time, but its breakdown differs in {_some(repeated)}"
    )


def tell_rewards(rewards: Sequence[float | None]) -> str:
    """Rewards in their order, such as `1, 1, 0.5 and no verdict`."""
    shown = ["no verdict" if reward is None else f"{reward:.6g}" for reward in rewards[:_SHOWN]]
    more = [f"{len(rewards) - _SHOWN} more"] if len(rewards) > _SHOWN else []
    *first, last = [*shown, *more]
    return f"{', '.join(first)} and {last}" if first else last


def _some(repeated: RepeatedVerdicts) -> str:
    return ", ".join(f"`{place[:80]}`" for place in repeated.differing[:5])
