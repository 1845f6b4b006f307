"""Grades a task's verifier by its findings, with the reasons in words."""

from collections import Counter
from collections.abc import Iterable, Sequence

from seatrial.check.chosen import NO_ANSWER
from seatrial.model.check import CheckFinding, CheckOutcome, Grade, TaskCheck, Weight

WEIGHTS: tuple[Weight, ...] = ("critical", "major", "minor", "note")
"""From the heaviest to the lightest."""

_MOST_MAJOR_OF_C = 2
_NO_ANSWER = "there is no accepted answer to try variations of: "


def grade_of(
    outcomes: Sequence[CheckOutcome], findings: Iterable[CheckFinding], why_no_answer: str | None = None
) -> tuple[Grade, tuple[str, ...]]:
    """A for nothing that counts, B for minor things or what could not be tried, C and D for major ones, F critical.

    What there was no time for has no part in it: that depends on the budget, not on the verifier. `why_no_answer` says
    why nothing was there that variations could be tried of, if that is so.
    """
    counts = Counter(finding.weight for finding in findings if finding.counts)
    reasons = [_counted(counts[weight], weight) for weight in WEIGHTS if counts[weight] and weight != "note"]
    reasons += [f"{_NO_ANSWER}{why_no_answer}" if why_no_answer else "", *map(_untried, outcomes)]
    told = tuple(filter(None, reasons))
    if counts["critical"]:
        return "F", told
    if counts["major"]:
        return "C" if counts["major"] <= _MOST_MAJOR_OF_C else "D", told
    return "B" if told else "A", told or ("nothing was found",)


def regraded(check: TaskCheck, findings: Sequence[CheckFinding]) -> TaskCheck:
    """A result with other findings, such as ones that a baseline knows, and the grade they amount to."""
    if check.grade is None:
        return check.model_copy(update={"findings": tuple(findings)})
    no_answer = next((each for each in check.reasons if each.startswith(_NO_ANSWER)), "").removeprefix(_NO_ANSWER)
    grade, reasons = grade_of(check.outcomes, findings, no_answer or None)
    return check.model_copy(update={"findings": tuple(findings), "grade": grade, "reasons": reasons})


def incompleteness(check: TaskCheck) -> str:
    """That a check is incomplete, in words; empty where it is not. What is left out can only make the grade worse."""
    if not check.out_of_time:
        return ""
    return f"incomplete: the budget had no room for {check.out_of_time} verifications, which may find more"


def fails(check: TaskCheck, least: Weight) -> bool:
    """Whether a result fails a build: something counts that is at least so heavy, or nothing could be judged."""
    heavy = WEIGHTS[: WEIGHTS.index(least) + 1]
    return check.grade is None or any(finding.counts and finding.weight in heavy for finding in check.findings)


def _counted(number: int, weight: Weight) -> str:
    return f"{number} {weight} finding" + ("" if number == 1 else "s")


def _untried(outcome: CheckOutcome) -> str:
    if outcome.status == "error":
        return f"{outcome.check} could not be carried out: {outcome.reason}"
    if outcome.check == "V5" and outcome.status == "skipped" and outcome.reason != NO_ANSWER:
        return f"no wrong answer was tried: {outcome.reason}"
    if failed := outcome.left_out - outcome.out_of_time:
        total = outcome.tried + outcome.left_out
        return f"{outcome.check} is incomplete: {failed} of {total} verifications could not be run"
    return ""
