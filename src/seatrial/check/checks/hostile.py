"""V9: whatever an agent leaves where its answer should be, the verifier gives a verdict in time, and no reward."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from seatrial.check.answers.chosen import NO_ANSWER, Variant, Variants, chosen_answers, falls, judged
from seatrial.check.answers.hostile_files import NUMBER_FILES, HostileFile, hostile_files
from seatrial.check.cases import Case, CaseVerdict, CheckResult, Subject
from seatrial.check.conclusion import concluded, skipped
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
class Met:
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
    seen = [Met(trial, verdict) for trial in made for verdict in [judged(trial.variant, verdicts)] if verdict]
    replaced = [met for met in seen if not met.trial.file.beside]
    if replaced and not any(falls(met.trial.variant, met.verdict) for met in replaced):
        return skipped(CHECK, _NOT_READ)
    groups: dict[Trouble, list[Met]] = {}
    for met in seen:
        trouble = _trouble(met)
        if trouble:
            groups.setdefault(trouble, []).append(met)
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


def _trouble(met: Met) -> Trouble | None:
    if met.verdict.timed_out:
        return "no-end"
    if not met.trial.file.beside and not falls(met.trial.variant, met.verdict):
        return "rewarded"
    return "no-verdict" if _is_silent(met.verdict) else None


def _is_silent(verdict: CaseVerdict) -> bool:
    return verdict.outcome == "verifier_error" or bool(
        verdict.evaluation and not verdict.evaluation.validity.verifier_completed
    )


def _finding(subject: Subject, trouble: Trouble, every: list[Met]) -> CheckFinding:
    first = every[0]
    what = "; ".join(f"it {met.trial.file.what}" for met in every[1:])
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
        evidence={"cases": [met.trial.variant.case.id for met in every], "log": first.verdict.log[-_LOG_END:]},
    )


def _weight(trouble: Trouble, every: list[Met]) -> Weight:
    """A reward for junk is the worst; one for wild numbers says what V5 says of their fields."""
    if all(met.trial.file.rare for met in every):
        return "note"
    if trouble == "rewarded":
        return "major" if all(met.trial.file.code in NUMBER_FILES for met in every) else "critical"
    return "major" if trouble == "no-end" else "minor"
