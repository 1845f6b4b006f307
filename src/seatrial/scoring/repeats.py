"""A verifier that was asked several times about the same end state: what its verdicts amount to together.

The lowest reward counts, as it does between two verdicts that are disputed. An agent must not profit from a verifier
that rolls dice, a mean would be a reward that no verifier ever gave, and the first one would be luck. All are kept.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from statistics import stdev
from typing import Any, Literal, NamedTuple

from seatrial.model.evaluation import NONDETERMINISTIC, ConfidenceMetadata, EvaluationResult
from seatrial.model.outcome import format_reward
from seatrial.scoring.text import Finding, note, with_finding

# Comparing breakdowns. What may differ between honest runs does not count: times, places, orders.

MAX_DIFFERENCES = 10
_ROUNDING = 1e-9
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
# A value under such a name tells when, where or how fast a verifier ran.
_ABOUT_THE_RUN = frozenset(
    """
    time times timestamp timestamps date datetime duration durations elapsed runtime walltime latency throughput
    started finished created updated start stop begin end sec secs second seconds ms millis milliseconds us ns pid
    ppid tid port path paths file filename dir directory folder cwd tmp tmpdir temp tempdir host hostname memory mem
    rss cpu uuid guid id nonce seed stdout stderr log logs output traceback
    """.split()  # noqa: SIM905 - names read better as text
)
_UNITS = r"(?:s|sec|secs|seconds?|ms|milliseconds?|us|µs|ns|m|min|minutes?|h|hours?)"
_VOLATILE = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"  # dates and moments
    r"|\b\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?\b"  # times of day
    rf"|\b\d+(?:[.,]\d+)?\s?{_UNITS}\b"  # lengths of time
    r"|\b0x[0-9a-fA-F]+\b"  # addresses of objects
    r"|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"
    r"|/(?:tmp|var/tmp|proc|dev/shm)/[^\s'\"]*"
    r"|\b(?:pid|port|process)[ =:]*\d+"
)


def differences(first: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Where two breakdowns say something else, such as `drop_v.score`; the first of these places."""
    found: list[str] = []
    for place in _differing("", first or {}, other or {}):
        found.append(place)
        if len(found) == MAX_DIFFERENCES:
            break
    return tuple(found)


def _differing(place: str, first: Any, other: Any) -> Iterator[str]:
    if isinstance(first, dict) and isinstance(other, dict):
        for key in {**first, **other}:
            one, two = first.get(key, _Missing), other.get(key, _Missing)
            if not _is_about_the_run(key) or _is_scored(one) or _is_scored(two):
                yield from _differing(f"{place}.{key}" if place else key, one, two)
    elif isinstance(first, list) and isinstance(other, list):
        if sorted(map(_lasting, first)) != sorted(map(_lasting, other)):
            yield place
    elif not _alike(first, other):
        yield place


class _Missing:
    """Stands for a key that is not there, which is something else than null."""


def _is_scored(value: Any) -> bool:
    """Whether it is a dimension of the work, whatever it is called, such as `travel_time`."""
    return isinstance(value, dict) and "score" in value


def _is_about_the_run(key: str) -> bool:
    return any(word.lower() in _ABOUT_THE_RUN for word in _WORD.findall(key))


def _lasting(value: Any) -> str:
    """What of an item of a list does not depend on when and where it was written."""
    if isinstance(value, dict):
        lasting = {key: _lasting(item) for key, item in value.items() if not _is_about_the_run(key)}
        return json.dumps(lasting, sort_keys=True)
    if isinstance(value, list):
        return json.dumps(sorted(map(_lasting, value)))
    if isinstance(value, str):
        return json.dumps(_words(value))
    if isinstance(value, float):
        return f"{value:.9g}"
    return json.dumps(value)


def _alike(first: Any, other: Any) -> bool:
    if isinstance(first, bool) or isinstance(other, bool):
        return first is other
    if isinstance(first, int | float) and isinstance(other, int | float):
        return math.isclose(first, other, rel_tol=_ROUNDING, abs_tol=_ROUNDING)
    if isinstance(first, str) and isinstance(other, str):
        return first == other or _words(first) == _words(other)
    return bool(first == other)


def _words(text: str) -> list[str]:
    """The words of a text whatever their order: one who lists what is in a set lists it in any."""
    return sorted(re.split(r"[\s,;\[\]{}()'\"]+", _VOLATILE.sub("", text)))


RepeatPlace = Literal["fresh", "same"]
"""Where a verifier was asked again: in a sandbox laid out anew each time, or in the one it had worked in before."""

_SHOWN = 20


class RepeatedVerdicts(NamedTuple):
    """All verdicts in their order, None where there was none; places in the breakdown at which they differ."""

    rewards: tuple[float | None, ...]
    differing: tuple[str, ...]
    place: RepeatPlace

    @property
    def agree(self) -> bool:
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
    shown = ["no verdict" if reward is None else format_reward(reward) for reward in rewards[:_SHOWN]]
    more = [f"{len(rewards) - _SHOWN} more"] if len(rewards) > _SHOWN else []
    *first, last = [*shown, *more]
    return f"{', '.join(first)} and {last}" if first else last


def _some(repeated: RepeatedVerdicts) -> str:
    return ", ".join(f"`{place[:80]}`" for place in repeated.differing[:5])
