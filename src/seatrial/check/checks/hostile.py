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


def cases(subject: Subject) -> Iterator[Case]:
    """Every hostile file in the place of the first accepted answer."""
    for trial in _made(subject):
        yield trial.variant.case


def findings(subject: Subject, verdicts: Mapping[str, CaseVerdict]) -> CheckResult:
    """What hostile files did to the verifier: a reward, no end, or no verdict; one finding for each of these."""
    made = _made(subject)
    if not made:
        return skipped(CHECK, NO_ANSWER)
    seen = [(trial, verdict) for trial in made for verdict in [judged(trial.variant, verdicts)] if verdict]
    replaced = [(trial, verdict) for trial, verdict in seen if not trial.file.beside]
    if replaced and not any(falls(trial.variant, verdict) for trial, verdict in replaced):
        return skipped(CHECK, _NOT_READ)
    groups: dict[Trouble, list[HostileTrial]] = {}
    for trial, verdict in seen:
        if trouble := _trouble(trial, verdict):
            groups.setdefault(trouble, []).append(trial)
    found = [_finding(subject, trouble, every, verdicts) for trouble, every in groups.items()]
    return concluded(CHECK, found, {"files": len(seen)}, judged=len(seen))


def _made(subject: Subject) -> list[HostileTrial]:
    variants = Variants(CHECK)
    patient = subject.task.config.verifier.timeout_sec > _PATIENCE_SEC
    return [
        HostileTrial(file, variants.make(answer, file.edits, file.code, worth=_WORTH.get(file.code, 45)))
        for answer in chosen_answers(subject)[:1]
        for file in hostile_files(answer)
        if not (file.waits and patient)
    ]


def _trouble(trial: HostileTrial, verdict: CaseVerdict) -> Trouble | None:
    if verdict.timed_out:
        return "no-end"
    if not trial.file.beside and not falls(trial.variant, verdict):
        return "rewarded"
    return "no-verdict" if _is_silent(verdict) else None


def _is_silent(verdict: CaseVerdict) -> bool:
    return verdict.outcome == "verifier_error" or bool(
        verdict.evaluation and not verdict.evaluation.validity.verifier_completed
    )


def _finding(
    subject: Subject, trouble: Trouble, every: list[HostileTrial], verdicts: Mapping[str, CaseVerdict]
) -> CheckFinding:
    cases = [trial.variant.case.id for trial in every]
    first, case = every[0], cases[0]
    what = "; ".join(f"it {trial.file.what}" for trial in every[1:])
    message = f"{_SAID[trouble]} when {first.variant.answer.path} {first.file.what}"
    return CheckFinding(
        check=CHECK,
        code=trouble,
        weight=_weight(trouble, every),
        message=f"{message}; or {what}" if what else message,
        fix=_FIXES[trouble],
        reproduce=subject.reproduce(case),
        case=case,
        evidence={"cases": cases, "log": verdicts[case].log[-_LOG_END:]},
    )


def _weight(trouble: Trouble, every: list[HostileTrial]) -> Weight:
    """A reward for junk is the worst; one for wild numbers says what V5 says of their fields."""
    if all(trial.file.rare for trial in every):
        return "note"
    if trouble == "rewarded":
        return "major" if all(trial.file.code in NUMBER_FILES for trial in every) else "critical"
    return "major" if trouble == "no-end" else "minor"
