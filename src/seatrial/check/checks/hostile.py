"""V9: whatever an agent leaves where its answer should be, the verifier gives a verdict in time, and no reward."""

from collections.abc import Iterator, Mapping
from typing import Literal

from seatrial.check.cases import Case, CaseVerdict, CheckResult, Subject
from seatrial.check.chosen import NO_ANSWER, Variant, Variants, chosen_answers, falls, judged
from seatrial.check.judging import concluded, finding_of, skipped
from seatrial.check.variants import NUMBER_FILES, HostileFile, hostile_files
from seatrial.model.base import JsonObject
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


_Trial = tuple[HostileFile, Variant]
"""A hostile file, and the case that puts it into the place of an answer."""


def cases(subject: Subject) -> Iterator[Case]:
    """Every hostile file in the place of the first accepted answer."""
    for _, variant in _made(subject):
        yield variant.case


def findings(subject: Subject, verdicts: Mapping[str, CaseVerdict]) -> CheckResult:
    """What hostile files did to the verifier: a reward, no end, or no verdict; one finding for each of these."""
    made = _made(subject)
    if not made:
        return skipped(CHECK, NO_ANSWER)
    seen = [(*trial, verdict) for trial in made for verdict in [judged(trial[1], verdicts)] if verdict]
    replaced = [(variant, verdict) for file, variant, verdict in seen if not file.beside]
    if replaced and not any(falls(*each) for each in replaced):
        return skipped(CHECK, _NOT_READ)
    groups: dict[Trouble, list[_Trial]] = {}
    for file, variant, verdict in seen:
        if trouble := _trouble(file, variant, verdict):
            groups.setdefault(trouble, []).append((file, variant))
    found = [_finding(subject, trouble, every, verdicts) for trouble, every in groups.items()]
    return concluded(CHECK, found, {"files": len(seen)}, judged=len(seen))


def _made(subject: Subject) -> list[_Trial]:
    variants = Variants(CHECK)
    patient = subject.task.config.verifier.timeout_sec > _PATIENCE_SEC
    return [
        (file, variants.make(answer, file.edits, file.code, worth=_WORTH.get(file.code, 45)))
        for answer in chosen_answers(subject)[:1]
        for file in hostile_files(answer)
        if not (file.waits and patient)
    ]


def _trouble(file: HostileFile, variant: Variant, verdict: CaseVerdict) -> Trouble | None:
    if verdict.timed_out:
        return "no-end"
    if not file.beside and not falls(variant, verdict):
        return "rewarded"
    return "no-verdict" if _is_silent(verdict) else None


def _is_silent(verdict: CaseVerdict) -> bool:
    return verdict.outcome == "verifier_error" or bool(
        verdict.evaluation and not verdict.evaluation.validity.verifier_completed
    )


def _finding(
    subject: Subject, trouble: Trouble, every: list[_Trial], verdicts: Mapping[str, CaseVerdict]
) -> CheckFinding:
    cases = [variant.case.id for _, variant in every]
    (first, variant), case = every[0], cases[0]
    what = "; ".join(f"it {file.what}" for file, _ in every[1:])
    message = f"{_SAID[trouble]} when {variant.answer.path} {first.what}"
    message = f"{message}; or {what}" if what else message
    evidence: JsonObject = {"cases": cases, "log": verdicts[case].log[-_LOG_END:]}
    return finding_of(CHECK, subject, trouble, _weight(trouble, every), message, _FIXES[trouble], case, evidence)


def _weight(trouble: Trouble, every: list[_Trial]) -> Weight:
    """A reward for junk is the worst; one for wild numbers says what V5 says of their fields."""
    if all(file.rare for file, _ in every):
        return "note"
    if trouble == "rewarded":
        return "major" if all(file.code in NUMBER_FILES for file, _ in every) else "critical"
    return "major" if trouble == "no-end" else "minor"
