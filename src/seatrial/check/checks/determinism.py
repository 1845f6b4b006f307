"""V4: does a verifier say the same about the same end state, again and under other conditions?

The first accepted state is judged again as it is, then under one other condition at a time; every other state once more
as it is, and once under all of them together. What is pinned by the task or its image stays as it is.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from seatrial.check.cases import ORACLE, UNTOUCHED, Case, CaseVerdict, CheckResult, Subject, case_id
from seatrial.check.conditions import ALL_TOGETHER, CONTROL, NETWORK, NOT_VARIED, ONE_BY_ONE, Condition
from seatrial.check.judging import concluded, finding_of, skipped
from seatrial.model.base import JsonObject
from seatrial.model.check import CheckFinding, CheckId, Weight
from seatrial.model.outcome import format_mean, format_range, has_passed
from seatrial.scoring.repeats import differences, spread_of, tell_rewards
from seatrial.stats.estimates import wilson

CHECK: CheckId = "V4"
TITLE = "the same verdict on the same end state"

_LOWER: Mapping[Weight, Weight] = {"critical": "major", "major": "minor", "minor": "minor", "note": "note"}
_DISTURBED = "here date and order do not count: the file that Python loads at its start made a difference by itself"
_REPEATS_OF_OTHERS = 2
_DICE = 3  # so many conditions that have nothing to do with each other do not matter all at once
_BREAKDOWN = "breakdown"


def cases(subject: Subject) -> Iterator[Case]:
    """Each state again, and under other conditions."""
    if not (states := _states(subject)):
        return
    first, *others = states
    for number in range(2, subject.repeats + 1):
        yield Case(_repeat(first, number), CHECK, first, worth=60 - min(number, 10))
    for condition in (*ONE_BY_ONE, CONTROL):
        if condition is not NETWORK or not _declares_network(subject):
            yield Case(_under(first, condition), CHECK, first, conditions=condition.conditions, worth=condition.worth)
    for state in others:
        yield Case(_repeat(state, _REPEATS_OF_OTHERS), CHECK, state, worth=20)
        yield Case(_under(state, ALL_TOGETHER), CHECK, state, conditions=ALL_TOGETHER.conditions, worth=20)


def findings(subject: Subject, verdicts: Mapping[str, CaseVerdict]) -> CheckResult:
    """What differs, by state: a verifier that differs from itself, or one that depends on a condition."""
    compared, reason = [_compare(subject, each, verdicts) for each in _states(subject)], NOT_VARIED
    if any(state.is_disturbed for state in compared):  # which is tried on one state, and says it of the verifier
        compared, reason = [state.without_file for state in compared], f"{NOT_VARIED}; {_DISTURBED}"
    compared = [state for state in compared if state.again]
    if not compared:
        return skipped(CHECK, "no end state was judged a second time, so nothing can be said")
    found: list[CheckFinding] = []
    for state in compared:
        # What one state shows, others would only say again.
        known = {finding.code for finding in found}
        explained = known | ({ALL_TOGETHER.code} if known - {_BREAKDOWN} else set())
        found += [each for each in _of_state(subject, state) if each.code not in explained]
    return concluded(CHECK, found, _figures(compared), reason=reason)


def _states(subject: Subject) -> list[str]:
    """The states to judge again: accepted ones first, the oracle's before the author's golden answers."""
    accepted = [state for state in sorted(subject.states) if state == "golden/pass" or state.startswith("golden/pass/")]
    named = [ORACLE, *accepted, UNTOUCHED]
    return [state for state in named if _judged(subject.states.get(state))]


def _judged(verdict: CaseVerdict | None) -> bool:
    """Whether a verifier came to an end. One that ran out of time tells more about the machine than about itself."""
    return verdict is not None and verdict.evaluation is not None and not verdict.timed_out and not verdict.failure


def _declares_network(subject: Subject) -> bool:
    """Whether the author says that the network is needed, or that there is none to be taken away."""
    config = subject.task.config
    said = "network" in config.environment.model_fields_set or config.verifier.network is not None
    return said or any(step.verifier.network for step in config.steps)


def _repeat(state: str, number: int) -> str:
    return case_id(CHECK, state, f"repeat-{number}")


def _under(state: str, condition: Condition) -> str:
    return case_id(CHECK, state, condition.name)


@dataclass(frozen=True, slots=True)
class _Compared:
    """The first verdict on a state, those of repeats, and those under conditions, each with its condition."""

    state: str
    first: CaseVerdict
    repeats: Sequence[CaseVerdict]
    under: Sequence[tuple[Condition, CaseVerdict]]

    @property
    def again(self) -> bool:
        """Whether there is anything to compare with."""
        return bool(self.repeats or self.under)

    @property
    def rewards(self) -> list[float | None]:
        """Of the first verdict and all repeats."""
        return [_reward(each) for each in (self.first, *self.repeats)]

    @property
    def telling(self) -> list[tuple[Condition, CaseVerdict]]:
        """Those of `under` that tell something."""
        return [pair for pair in self.under if pair[0] is not CONTROL]

    @property
    def is_disturbed(self) -> bool:
        """Whether our file at the start of Python makes a difference by itself."""
        usual = _reward(self.first)
        return any(_reward(verdict) != usual for condition, verdict in self.under if condition is CONTROL)

    @property
    def without_file(self) -> "_Compared":
        """The same without all that was tried by such a file."""
        return replace(self, under=[pair for pair in self.under if not pair[0].python])

    @property
    def flake_rate(self) -> float:
        """The share of runs that gave something else than most of them."""
        return _flake_rate(self.rewards)


def _flake_rate(rewards: Sequence[float | None]) -> float:
    return 1.0 - Counter(rewards).most_common(1)[0][1] / len(rewards)


def _compare(subject: Subject, state: str, verdicts: Mapping[str, CaseVerdict]) -> _Compared:
    numbers = range(2, max(subject.repeats, _REPEATS_OF_OTHERS) + 1)
    repeats = [verdict for number in numbers if (verdict := _given(verdicts, _repeat(state, number)))]
    tried = [(each, _given(verdicts, _under(state, each))) for each in (*ONE_BY_ONE, CONTROL, ALL_TOGETHER)]
    under = [(condition, verdict) for condition, verdict in tried if verdict]
    return _Compared(state, subject.states[state], repeats, under)


def _given(verdicts: Mapping[str, CaseVerdict], case: str) -> CaseVerdict | None:
    verdict = verdicts.get(case)
    return verdict if _judged(verdict) else None


def _reward(verdict: CaseVerdict) -> float | None:
    """The reward; None for a verifier that came to its end without a verdict."""
    evaluation = verdict.evaluation
    return evaluation.reward if evaluation and evaluation.validity.verifier_completed else None


def _of_state(subject: Subject, compared: _Compared) -> Iterator[CheckFinding]:
    usual = _reward(compared.first)
    depends = {
        condition.code: (condition, verdict)
        for condition, verdict in reversed(compared.telling)
        if _reward(verdict) != usual
    }
    if compared.flake_rate or len(depends) >= _DICE:  # what conditions seem to do may be the same dice
        yield _flaky(subject, compared, [verdict for _, verdict in compared.telling] if not compared.flake_rate else [])
        return
    for condition, verdict in reversed(depends.values()):
        yield _dependent(subject, compared, condition, verdict)
    yield from _breakdowns(subject, compared)


def _flaky(subject: Subject, compared: _Compared, others: Sequence[CaseVerdict]) -> CheckFinding:
    runs = [compared.first, *compared.repeats, *others]
    rewards = [_reward(run) for run in runs]
    rate = _flake_rate(rewards)
    low, high = wilson(rate, len(rewards))
    odd = next(run for run in runs if _reward(run) != rewards[0])
    told = f"{format_mean(rate, '.0%')} of runs differ from the others (95 % interval {format_range(low, high, '.0%')})"
    weight = _weight(rewards, subject.pass_threshold)
    message = f"asked {len(rewards)} times about {_named(compared.state)}, it gave {tell_rewards(rewards)}: {told}"
    fix = "look for random numbers without a seed, the order of sets, times that are measured, ports and races"
    return finding_of(CHECK, subject, f"flaky:{compared.state}", weight, message, fix, odd.case, _evidence(compared))


def _dependent(subject: Subject, compared: _Compared, condition: Condition, verdict: CaseVerdict) -> CheckFinding:
    rewards = [_reward(compared.first), _reward(verdict)]
    weight = _weight(rewards, subject.pass_threshold)
    if condition.rare or (
        condition is NETWORK and rewards[1] is None
    ):  # no verdict is honest where there is no network
        weight = _LOWER[weight]
    usual, other = tell_rewards(rewards[:1]), tell_rewards(rewards[1:])
    message = f"on {_named(compared.state)} it gave {usual}, and {condition.words} it gave {other}"
    name = f"{condition.code}:{compared.state}"
    return finding_of(CHECK, subject, name, weight, message, condition.fix, verdict.case, _evidence(compared))


def _breakdowns(subject: Subject, compared: _Compared) -> Iterator[CheckFinding]:
    """Breakdowns that differ where rewards do not: one finding that names the places and by what they differ."""
    again = [("asked again", verdict) for verdict in compared.repeats]
    under = [(condition.words, verdict) for condition, verdict in compared.telling]
    same = [(words, verdict) for words, verdict in (*again, *under) if _reward(verdict) == _reward(compared.first)]
    differ = {verdict.case: (words, found) for words, verdict in same if (found := _differing(compared.first, verdict))}
    if not differ:
        return
    case, (first_words, _) = next(iter(differ.items()))
    by = ["asked again"] if first_words == "asked again" else [words for words, _ in differ.values()]
    places = dict.fromkeys(place for _, found in differ.values() for place in found)
    named = ", ".join(f"`{place}`" for place in list(places)[:5])
    told = f"on {_named(compared.state)} the reward stays the same, but its breakdown differs in {named}"
    fix = "write to details.json only what follows from the work that is judged"
    name = f"{_BREAKDOWN}:{compared.state}"
    yield finding_of(CHECK, subject, name, "minor", f"{told} ({'; '.join(by)})", fix, case)


def _differing(first: CaseVerdict, other: CaseVerdict) -> tuple[str, ...]:
    told, also = first.evaluation, other.evaluation
    return differences(told.breakdown if told else None, also.breakdown if also else None)


def _weight(rewards: Sequence[float | None], threshold: float) -> Weight:
    """Critical where one of the verdicts is a pass and another is none."""
    passes = {reward is not None and has_passed(reward, threshold) for reward in rewards}
    return "critical" if len(passes) > 1 else "major"


def _named(state: str) -> str:
    return {ORACLE: "the solution's end state", UNTOUCHED: "the untouched environment"}.get(state, state)


def _evidence(compared: _Compared) -> JsonObject:
    under = {condition.name: _reward(verdict) for condition, verdict in compared.under}
    return {"repeats": compared.rewards, "conditions": under}


def _figures(compared: Sequence[_Compared]) -> JsonObject:
    """The flake rate over all states: what is not the usual verdict of its state counts."""
    runs = sum(len(each.rewards) for each in compared)
    rate = sum(each.flake_rate * len(each.rewards) for each in compared) / runs
    low, high = wilson(rate, runs)
    varied = sorted({condition.name for each in compared for condition, _ in each.under if condition is not CONTROL})
    return {
        "states": [each.state for each in compared],
        "repeated_runs": runs,
        "flake_rate": round(rate, 4),
        "flake_rate_interval": [round(low, 4), round(high, 4)],
        "varied": varied,
        "confidence": {each.state: spread_of(each.rewards).model_dump(exclude_none=True) for each in compared},
    }
