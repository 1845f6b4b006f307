"""V9: whatever an agent leaves where its answer should be, the verifier gives a verdict in time, and no reward."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from seatrial.check.cases import Case, CaseVerdict, CheckResult, Subject
from seatrial.check.chosen import NO_ANSWER, Variant, Variants, chosen_answers, falls, judged
from seatrial.check.judging import concluded, skipped
from seatrial.check.variants import NUMBER_FILES, HostileFile, hostile_files
from seatrial.model.check import CheckFinding, CheckId, Weight

CHECK: CheckId = "V9"
TITLE = "hostile outputs get a verdict in time, and no reward"

Trouble = Literal["rewarded", "no-end", "no-verdict"]
_SAID: Mapping[Trouble, str] = {
    "rewarded": "the reward is that of the right answer",
    "no-end": "the verifier does not end in its time",
    "no-verdict": "the verifier ends without a verdict (which counts as 0 here, and may be an error elsewhere)",
}
_FIXES: Mapping[Trouble, str] = {
    "rewarded": "give 0 for what cannot be read",
    "no-end": "look at the kind of a file and at its size before reading it",
    "no-verdict": "catch what reading the file may raise, and write a reward of 0",
}
_WORTH = {"huge": 35, "odd-names": 20, "pipe": 1}
_PATIENCE_SEC = 60.0
_NOT_READ = "the reward does not depend on the file at all; V5 says more about that"
_LOG_END = 300


@dataclass(frozen=True, slots=True)
class HostileTrial:
    """A hostile file, and the case that puts it into the place of an answer."""

    file: HostileFile
    variant: Variant


@dataclass(frozen=True, slots=True)
class HostileOutcome:
    """A hostile file that the verifier met, and what it said."""

    trial: HostileTrial
    verdict: CaseVerdict


def cases(subject: Subject) -> Iterator[Case]:
    """Every hostile file in the place of the first accepted answer."""
    for trial in _made(subject):
        yield trial.variant.case


def findings(subject: Subject, verdicts: Mapping[str, CaseVerdict]) -> CheckResult:
    """What hostile files did to the verifier: a reward, no end, or no verdict; one finding for each of these."""
    made = _made(subject)
    if not made:
        return skipped(CHECK, NO_ANSWER)
    seen = [
        HostileOutcome(trial, verdict) for trial in made for verdict in [judged(trial.variant, verdicts)] if verdict
    ]
    replaced = [outcome for outcome in seen if not outcome.trial.file.beside]
    if replaced and not any(falls(outcome.trial.variant, outcome.verdict) for outcome in replaced):
        return skipped(CHECK, _NOT_READ)
    groups: dict[Trouble, list[HostileOutcome]] = {}
    for outcome in seen:
        trouble = _trouble(outcome)
        if trouble:
            groups.setdefault(trouble, []).append(outcome)
    found = [_finding(subject, trouble, every) for trouble, every in groups.items()]
    return concluded(CHECK, found, {"files": len(seen)})


def _made(subject: Subject) -> list[HostileTrial]:
    variants = Variants(CHECK)
    patient = subject.task.config.verifier.timeout_sec > _PATIENCE_SEC
    return [
        HostileTrial(file, variants.make(answer, file.edits, file.code, worth=_WORTH.get(file.code, 45)))
        for answer in chosen_answers(subject)[:1]
        for file in hostile_files(answer)
        if not (file.waits and patient)
    ]


def _trouble(outcome: HostileOutcome) -> Trouble | None:
    if outcome.verdict.timed_out:
        return "no-end"
    if not outcome.trial.file.beside and not falls(outcome.trial.variant, outcome.verdict):
        return "rewarded"
    return "no-verdict" if _is_silent(outcome.verdict) else None


def _is_silent(verdict: CaseVerdict) -> bool:
    return verdict.outcome == "verifier_error" or bool(
        verdict.evaluation and not verdict.evaluation.validity.verifier_completed
    )


def _finding(subject: Subject, trouble: Trouble, every: list[HostileOutcome]) -> CheckFinding:
    first = every[0]
    what = "; ".join(f"it {outcome.trial.file.what}" for outcome in every[1:])
    message = f"{_SAID[trouble]} when {first.trial.variant.answer.path} {first.trial.file.what}"
    case = first.trial.variant.case.id
    return CheckFinding(
        check=CHECK,
        code=trouble,
        weight=_weight(trouble, every),
        message=f"{message}; or {what}" if what else message,
        fix=_FIXES[trouble],
        reproduce=subject.reproduce(case),
        case=case,
        evidence={"cases": [outcome.trial.variant.case.id for outcome in every], "log": first.verdict.log[-_LOG_END:]},
    )


def _weight(trouble: Trouble, every: list[HostileOutcome]) -> Weight:
    """A reward for junk is the worst; one for wild numbers says what V5 says of their fields."""
    if all(outcome.trial.file.rare for outcome in every):
        return "note"
    if trouble == "rewarded":
        return "major" if all(outcome.trial.file.code in NUMBER_FILES for outcome in every) else "critical"
    return "major" if trouble == "no-end" else "minor"
