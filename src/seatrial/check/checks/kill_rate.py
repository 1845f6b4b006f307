"""V5: wrong answers made of an accepted one must be worth less. What is accepted all the same is told by field."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from seatrial.check.cases import AcceptedAnswer, Case, CaseVerdict, CheckResult, Subject
from seatrial.check.chosen import NO_ANSWER, Variant, Variants, chosen_answers, falls, judged, vocabulary
from seatrial.check.code_mutants import MAX_MUTANTS, mutants_of, rewritten
from seatrial.check.judging import concluded, skipped
from seatrial.check.mutants import Mutant, MutantKind
from seatrial.check.survivors import JudgedMutant, survivors
from seatrial.model.base import JsonObject
from seatrial.model.check import CheckId

CHECK: CheckId = "V5"
TITLE = "wrong answers like an accepted one are worth less"

_LATER_LIMIT = 20
_NO_MUTANTS = "no accepted answer is of a kind that can be made wrong without knowing the task"
_WORTH: Mapping[MutantKind, int] = {
    "far": 90, "does-nothing": 90, "other": 80, "missing": 80, "closer": 70, "row-missing": 60, "nan": 50,
    "opposite": 50, "always-true": 50, "always-false": 50,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class AnswerMutants:
    """The mutants of one answer as cases; `control` is the answer itself as they are written, if that differs."""

    answer: AcceptedAnswer
    control: Variant | None
    mutants: tuple[tuple[Mutant, Variant], ...]


def cases(subject: Subject) -> Iterator[Case]:
    for made in _made(subject):
        if made.control:
            yield made.control.case
        for _, variant in made.mutants:
            yield variant.case


def findings(subject: Subject, verdicts: Mapping[str, CaseVerdict]) -> CheckResult:
    """What survived, by field, and the kill rate."""
    every = _made(subject)
    if not any(made.mutants for made in every):
        return skipped(CHECK, _NO_MUTANTS if subject.answers else NO_ANSWER)
    if all(_is_refused(made, verdicts) for made in every if made.mutants):
        return skipped(CHECK, "the verifier refuses the accepted answer when it is written another way")
    tried = {made.answer.path: _tried(made, verdicts) for made in every if _is_telling(made, verdicts)}
    telling = [made.answer for made in every if made.answer.path in tried]
    found = [
        finding
        for answer in telling
        for finding in survivors(subject, answer, tried[answer.path], _elsewhere(tried, answer.path))
    ]
    return concluded(CHECK, found, _figures(tried.values()), judged=sum(map(len, tried.values())))


def _made(subject: Subject) -> list[AnswerMutants]:
    words, variants = vocabulary(subject), Variants(CHECK)
    every = []
    for number, answer in enumerate(chosen_answers(subject)):
        limit = MAX_MUTANTS if number == 0 else _LATER_LIMIT
        mutants = mutants_of(answer.content, answer.path, answer.format, words, limit)
        same = rewritten(answer.content, answer.path, answer.format) if mutants else None
        control = variants.replaced(answer, same, "rewritten", worth=100) if same is not None else None
        every.append(AnswerMutants(answer, control, tuple((m, _variant(variants, answer, m)) for m in mutants)))
    return every


def _variant(variants: Variants, answer: AcceptedAnswer, mutant: Mutant) -> Variant:
    parts = [mutant.subject, mutant.kind, *([mutant.label] if mutant.label else [])]
    return variants.replaced(answer, mutant.content, *parts, worth=_WORTH.get(mutant.kind, 40))


def _is_telling(made: AnswerMutants, verdicts: Mapping[str, CaseVerdict]) -> bool:
    """Whether a mutant that falls does so for what is wrong about it, and not for the way in which it is written."""
    if made.control is None:
        return bool(made.mutants)
    verdict = judged(made.control, verdicts)
    return verdict is not None and not falls(made.control, verdict)


def _is_refused(made: AnswerMutants, verdicts: Mapping[str, CaseVerdict]) -> bool:
    """Whether the answer itself falls once it is written as its mutants are; not known where that was not tried."""
    verdict = judged(made.control, verdicts) if made.control else None
    return made.control is not None and verdict is not None and falls(made.control, verdict)


def _tried(made: AnswerMutants, verdicts: Mapping[str, CaseVerdict]) -> list[JudgedMutant]:
    pairs = [(mutant, variant, judged(variant, verdicts)) for mutant, variant in made.mutants]
    return [
        JudgedMutant(mutant, variant.case.id, falls(variant, verdict)) for mutant, variant, verdict in pairs if verdict
    ]


def _elsewhere(tried: Mapping[str, list[JudgedMutant]], path: str) -> list[JudgedMutant]:
    return [one for other, ones in tried.items() if other != path for one in ones]


def _figures(every: Iterable[list[JudgedMutant]]) -> JsonObject:
    tried = [one for ones in every for one in ones]
    killed = sum(one.killed for one in tried)
    fields: dict[str, list[int]] = {}
    for one in tried:
        count = fields.setdefault(one.mutant.field, [0, 0])
        count[not one.killed] += 1
    surviving = {name: {"killed": dead, "survived": alive} for name, (dead, alive) in fields.items() if alive}
    rate = {"kill_rate": round(killed / len(tried), 4)} if tried else {}
    return {"mutants": len(tried), "killed": killed, "survived": len(tried) - killed, **rate, "surviving": surviving}
