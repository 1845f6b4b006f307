"""V9: whatever an agent leaves where its answer should be, the verifier gives a verdict in time, and no reward."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from seatrial.check.answers import NO_ANSWER, Variant, Variants, chosen_answers, falls, judged
from seatrial.check.cases import Case, CaseVerdict, CheckResult, Subject
from seatrial.check.conclusion import concluded, skipped
from seatrial.check.hostile_files import HostileFile, hostile_files
from seatrial.model.check import CheckFinding, CheckId, Weight

CHECK: CheckId = "V9"
TITLE = "hostile outputs get a verdict in time, and no reward"

_WORTH = {"huge": 5, "pipe": 1}
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
    """What hostile files did to the verifier: a reward, no end, or no verdict."""
    made = _made(subject)
    if not made:
        return skipped(CHECK, NO_ANSWER)
    seen = [(trial, verdict) for trial in made for verdict in [judged(trial.variant, verdicts)] if verdict]
    replaced = [(trial, verdict) for trial, verdict in seen if not trial.file.beside]
    if replaced and not any(falls(trial.variant, verdict) for trial, verdict in replaced):
        return skipped(CHECK, _NOT_READ)
    found = [finding for trial, verdict in seen for finding in _findings(subject, trial, verdict)]
    return concluded(CHECK, found, {"files": len(seen)})


def _made(subject: Subject) -> list[HostileTrial]:
    variants = Variants(CHECK)
    return [
        HostileTrial(file, variants.make(answer, file.edits, file.code, worth=_WORTH.get(file.code, 20)))
        for answer in chosen_answers(subject)[:1]
        for file in hostile_files(answer)
    ]


def _findings(subject: Subject, trial: HostileTrial, verdict: CaseVerdict) -> Iterator[CheckFinding]:
    answer, file = trial.variant.answer, trial.file
    where = f"where {answer.path} should be is {file.what}"
    if verdict.timed_out:
        weight: Weight = "minor" if file.rare else "major"
        message = f"the verifier does not end in its time when {where}"
        yield _finding(subject, trial, verdict, ("no-end", weight, message, "look at kind and size before reading"))
    elif not file.beside and not falls(trial.variant, verdict):
        message = f"the reward is {verdict.reward or 0.0:g}, as for the right answer, when {where}"
        yield _finding(subject, trial, verdict, ("rewarded", "critical", message, "give 0 for what cannot be read"))
    elif _is_silent(verdict):
        message = f"the verifier ends without a verdict when {where}; here that counts as 0, elsewhere as an error"
        fix = "catch what reading the file may raise, and write a reward of 0"
        yield _finding(subject, trial, verdict, ("no-verdict", "note" if file.rare else "minor", message, fix))


def _is_silent(verdict: CaseVerdict) -> bool:
    return verdict.outcome == "verifier_error" or bool(
        verdict.evaluation and not verdict.evaluation.validity.verifier_completed
    )


def _finding(
    subject: Subject, trial: HostileTrial, verdict: CaseVerdict, said: tuple[str, Weight, str, str]
) -> CheckFinding:
    code, weight, message, fix = said
    case = trial.variant.case.id
    return CheckFinding(
        check=CHECK,
        code=code,
        subject=trial.file.code,
        weight=weight,
        message=message,
        fix=fix,
        reproduce=subject.reproduce(case),
        case=case,
        evidence={"exit_code": verdict.exit_code, "log": verdict.log[-_LOG_END:]},
    )
