"""V6: an answer that means the same must be worth the same, whatever its bytes."""

from collections.abc import Iterator, Mapping

from seatrial.check.cases import AcceptedAnswer, Case, CaseVerdict, CheckResult, Subject
from seatrial.check.chosen import NO_ANSWER, Variant, Variants, chosen_answers, falls, judged, vocabulary
from seatrial.check.judging import concluded, finding_of, skipped
from seatrial.check.variants import Form, forms_of
from seatrial.model.base import JsonObject
from seatrial.model.check import CheckFinding, CheckId
from seatrial.model.outcome import format_reward

CHECK: CheckId = "V6"
TITLE = "the same answer in other bytes is worth the same"

_WORTH = {"critical": 60, "major": 60, "minor": 30, "note": 10}
_FIX = "read the file with a parser of its format and compare values, or say in the instruction that the bytes matter"


def cases(subject: Subject) -> Iterator[Case]:
    for _, _, variant in _made(subject):
        yield variant.case


def findings(subject: Subject, verdicts: Mapping[str, CaseVerdict]) -> CheckResult:
    """Which forms are worth less, one finding per form."""
    made = _made(subject)
    if not made:
        return skipped(CHECK, _why_none(subject))
    seen = [(*each, verdict) for each in made for verdict in [judged(each[2], verdicts)] if verdict]
    found = [
        _finding(subject, answer, form, variant.case.id, verdict)
        for answer, form, variant, verdict in seen
        if falls(variant, verdict)
    ]
    return concluded(CHECK, found, {"forms": len(made), "refused": len(found)}, judged=len(seen))


def _made(subject: Subject) -> list[tuple[AcceptedAnswer, Form, Variant]]:
    words, variants = vocabulary(subject), Variants(CHECK)
    return [
        (answer, form, variants.replaced(answer, form.content, form.code, worth=_WORTH[form.weight]))
        for answer in chosen_answers(subject)
        for form in forms_of(answer.content, answer.path, answer.format, words)
    ]


def _why_none(subject: Subject) -> str:
    exact = vocabulary(subject).exact_bytes or vocabulary(subject).exact_form
    if not subject.answers:
        return NO_ANSWER
    if exact:
        return f"the instruction may ask for exact bytes: it says {exact!r}"
    return "no accepted answer is of a format that can be written in another way"


def _finding(subject: Subject, answer: AcceptedAnswer, form: Form, case: str, verdict: CaseVerdict) -> CheckFinding:
    reward = verdict.reward or 0.0
    worth = f"{format_reward(reward)} instead of {format_reward(answer.reward)}"
    message = f"the accepted {answer.path} is worth {worth} when {form.what}"
    message += "; the instruction does not seem to forbid that"
    evidence: JsonObject = {"reward": reward, "accepted_reward": answer.reward}
    return finding_of(CHECK, subject, f"{form.code}:{answer.path}", form.weight, message, _FIX, case, evidence)
