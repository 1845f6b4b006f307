"""V7: an answer that says everything must not be rewarded, though the right answer is in it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from seatrial.check.cases import AcceptedAnswer, Case, CaseVerdict, CheckResult, Subject
from seatrial.check.chosen import NO_ANSWER, Variant, Variants, chosen_answers, falls, judged, vocabulary
from seatrial.check.judging import concluded, finding_of, skipped
from seatrial.check.variants import Shot, shots_of, wrong_answer
from seatrial.model.check import CheckFinding, CheckId

CHECK: CheckId = "V7"
TITLE = "an answer that names every possibility is not rewarded"

_NONE = "no accepted answer is of a kind that can name several possibilities"
_ANY = "the verifier accepts wrong answers too (see V5), so this would say nothing new"
_FIX = "read one value from one place, and refuse an answer with more than that"


@dataclass(frozen=True, slots=True)
class AnswerShots:
    """The shotgun answers of one accepted answer, and the wrong one that they are compared with."""

    answer: AcceptedAnswer
    wrong: Variant
    shots: tuple[tuple[Shot, Variant], ...]


def cases(subject: Subject) -> Iterator[Case]:
    """Every shotgun answer, and a plainly wrong one for each accepted answer."""
    for made in _made(subject):
        yield made.wrong.case
        for _, variant in made.shots:
            yield variant.case


def findings(subject: Subject, verdicts: Mapping[str, CaseVerdict]) -> CheckResult:
    """Which of them are worth as much as the right answer. Where a wrong one is, they say nothing."""
    every = _made(subject)
    if not every:
        return skipped(CHECK, _NONE if subject.answers else NO_ANSWER)
    telling = [made for made in every if _falls(made.wrong, verdicts)]
    if not telling and all(judged(made.wrong, verdicts) for made in every):
        return skipped(CHECK, _ANY)
    seen = [(made.answer, *shot) for made in telling for shot in made.shots if judged(shot[1], verdicts)]
    found = [
        _finding(subject, answer, shot, variant.case.id)
        for answer, shot, variant in seen
        if not _falls(variant, verdicts)
    ]
    return concluded(CHECK, found, {"shots": len(seen)}, judged=len(seen))


def _made(subject: Subject) -> list[AnswerShots]:
    words, variants, every = vocabulary(subject), Variants(CHECK), []
    for answer in chosen_answers(subject):
        wrong = wrong_answer(answer.content, answer.path, answer.format, words)
        shots = shots_of(answer.content, answer.path, answer.format, words) if wrong is not None else []
        if wrong is not None and shots:
            control = variants.replaced(answer, wrong, "wrong", worth=60)
            made = tuple((shot, variants.replaced(answer, shot.content, shot.code, worth=50)) for shot in shots)
            every.append(AnswerShots(answer, control, made))
    return every


def _falls(variant: Variant, verdicts: Mapping[str, CaseVerdict]) -> bool:
    verdict = judged(variant, verdicts)
    return verdict is not None and falls(variant, verdict)


def _finding(subject: Subject, answer: AcceptedAnswer, shot: Shot, case: str) -> CheckFinding:
    name, message = f"{shot.code}:{answer.path}", f"{answer.path} is accepted when {shot.what}"
    return finding_of(CHECK, subject, name, "major", message, _FIX, case, {"accepted_reward": answer.reward})
