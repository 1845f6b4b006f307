"""What surviving mutants mean, one sentence per field: any value is accepted, it may be missing, it may be far off."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from seatrial.check.cases import AcceptedAnswer, Subject
from seatrial.check.chosen import is_main
from seatrial.check.code_mutants import is_code
from seatrial.check.judging import finding_of
from seatrial.check.mutants import FIELD_KINDS, Mutant, MutantKind
from seatrial.model.base import JsonObject
from seatrial.model.check import CheckFinding, Weight

_FEWEST_VALUES = 3
_FEWEST_SLIPS = 4
_PARTS_GONE: frozenset[MutantKind] = frozenset({"missing", "row-missing", "row-twice", "row-order"})
_EXAMPLES = 8
_AGAIN = re.compile(r"\bre-?(?:builds?|built|generat|runs?\b|ran\b|comput|creat|execut|mak|compil)", re.IGNORECASE)
_RUNS = re.compile(rb"\bsubprocess\b|\bos\.system\b|\bc?make\b|\bcargo\b|\bgo (?:build|run)\b|\bpython3? /")
_ROW_KINDS: dict[MutantKind, tuple[str, str]] = {
    "row-twice": ("may-be-repeated", "check that nothing is there twice"),
    "row-order": ("any-order-accepted", "check the order that the instruction asks for, or do not ask for one"),
    "swapped": ("may-be-swapped", "look each value up by its name"),
}


@dataclass(frozen=True, slots=True)
class JudgedMutant:
    """A mutant that was judged, the case it was, and whether its reward fell."""

    mutant: Mutant
    case: str
    killed: bool


@dataclass(frozen=True, slots=True)
class FieldTrials:
    """All that was tried on one field."""

    field: str
    tried: Sequence[JudgedMutant]

    @property
    def named(self) -> bool:
        """Whether the instruction speaks of it."""
        return any(one.mutant.named for one in self.tried)

    def of(self, *kinds: MutantKind) -> list[JudgedMutant]:
        return [one for one in self.tried if one.mutant.kind in kinds]

    def survived(self, *kinds: MutantKind) -> JudgedMutant | None:
        """The first one of some kinds that was accepted."""
        return next((one for one in self.of(*kinds) if not one.killed), None)

    def all_survived(self, *kinds: MutantKind) -> bool:
        """Whether some were tried and none of them fell."""
        ones = self.of(*kinds)
        return bool(ones) and not any(one.killed for one in ones)


def survivors(
    subject: Subject, answer: AcceptedAnswer, tried: Sequence[JudgedMutant], elsewhere: Sequence[JudgedMutant]
) -> list[CheckFinding]:
    """What the mutants of one answer tell about its verifier, beside what was tried on other files of the answer."""
    teller = _Teller(subject, answer)
    values = [one for one in tried if one.mutant.kind not in _PARTS_GONE]
    if len(values) >= _FEWEST_VALUES and not any(one.killed for one in values):
        is_read = len(values) < len(tried) and any(one.killed for one in tried)
        weight = _ignored_weight(subject, answer, elsewhere)
        if weight == "major" and (is_read or _is_made_anew(subject)):
            weight = "critical" if is_read else "note"
        return [teller.ignored(values, weight)]
    groups: dict[str, list[JudgedMutant]] = {}
    for one in tried:
        groups.setdefault(one.mutant.field, []).append(one)
    every = [FieldTrials(field, ones) for field, ones in groups.items()]
    return [finding for trials in every for finding in teller.tell(trials)]


def _ignored_weight(subject: Subject, answer: AcceptedAnswer, elsewhere: Sequence[JudgedMutant]) -> Weight:
    """How bad it is that nothing about a file matters. Another file may be what counts, and a program may be judged by
    what it left, or be running."""
    if any(one.killed for one in elsewhere) or is_code(answer.path) or not is_main(answer, subject):
        return "note"
    return "critical" if subject.task.output.source == "declared" else "major"


def _is_made_anew(subject: Subject) -> bool:
    """Whether the verifier is said to run the agent's work once more, which writes the file again, and does so."""
    return bool(_AGAIN.search(subject.instruction)) and any(map(_RUNS.search, subject.tests.values()))


class _Teller:
    """Puts what survived into findings about one answer."""

    def __init__(self, subject: Subject, answer: AcceptedAnswer) -> None:
        self._subject = subject
        self._answer = answer
        self._code = is_code(answer.path)

    def ignored(self, tried: Sequence[JudgedMutant], weight: Weight) -> CheckFinding:
        """Nothing about the answer matters."""
        path = self._answer.path
        message = f"the verifier does not look at what {path} says: all {len(tried)} versions with a wrong value pass"
        return self._finding(
            "answer-not-checked", path, weight, message, "compare what the file says with what it should say", tried
        )

    def tell(self, trials: FieldTrials) -> Iterator[CheckFinding]:
        if self._code:
            yield from self._code_findings(trials)
            return
        told = self._any_value(trials)
        if told:
            yield told
        else:
            yield from filter(None, (make(trials) for make in self._weaker()))
        yield from self._rows(trials)

    def _weaker(self) -> tuple[Callable[[FieldTrials], CheckFinding | None], ...]:
        return self._other_value, self._missing, self._tolerance, self._not_a_number, self._some_places

    def _any_value(self, trials: FieldTrials) -> CheckFinding | None:
        kinds = tuple(FIELD_KINDS)
        if not trials.all_survived(*kinds) or any(one.killed for one in trials.of("close", "closer")):
            return None
        also = ", and it may be missing" if trials.survived("missing") else ""
        message = f"any value of {_quoted(trials.field)} is accepted{also}: {_changes(trials.of(*kinds))}"
        fix = f"compare {_quoted(trials.field)} with the value it should have"
        return self._finding("any-value-accepted", trials.field, _weight(trials), message, fix, trials.of(*kinds))

    def _other_value(self, trials: FieldTrials) -> CheckFinding | None:
        """Some wrong value passes, though not every one: a check of range, of sign, or of the words that may be."""
        one = trials.survived(*FIELD_KINDS)
        if one is None:
            return None
        message = f"a wrong value of {_quoted(trials.field)} is accepted: {one.mutant.change}"
        fix = f"compare {_quoted(trials.field)} with the value it should have, not only with what it may be"
        # Which way is positive is often a convention, and then either sign is right.
        weight: Weight = "minor" if one.mutant.kind == "opposite" else _weight(trials)
        return self._finding("wrong-value-accepted", trials.field, weight, message, fix, [one])

    def _missing(self, trials: FieldTrials) -> CheckFinding | None:
        one = trials.survived("missing")
        if one is None:
            return None
        message = f"{_quoted(trials.field)} may be missing: an answer without it is worth as much"
        fix = f"require {_quoted(trials.field)}"
        return self._finding("may-be-missing", trials.field, _weight(trials), message, fix, [one])

    def _tolerance(self, trials: FieldTrials) -> CheckFinding | None:
        wide, wider = trials.survived("closer"), trials.survived("close")
        one = wider or wide
        if one is None or trials.survived(*FIELD_KINDS):
            return None
        message = f"{_quoted(trials.field)} is accepted {one.mutant.label} off: {one.mutant.change}"
        fix = "compare with a narrower tolerance, or say in the instruction how close a value must be"
        weight: Weight = _weight(trials) if wider else "minor"
        return self._finding("wide-tolerance", trials.field, weight, message, fix, [one])

    def _not_a_number(self, trials: FieldTrials) -> CheckFinding | None:
        one = trials.survived("nan", "text")
        if one is None or trials.survived(*FIELD_KINDS):
            return None
        message = f"{_quoted(trials.field)} need not be a number: {one.mutant.change}"
        fix = "refuse what is not a finite number before comparing: no comparison with NaN is ever true"
        return self._finding("not-a-number-accepted", trials.field, _weight(trials), message, fix, [one])

    def _some_places(self, trials: FieldTrials) -> CheckFinding | None:
        """One entry of many may be wrong. Where each that was tried may be, probably only a share must be right."""
        ones = trials.of("one-far")
        survived = [one for one in ones if not one.killed]
        if not survived or trials.survived(*FIELD_KINDS):
            return None
        weight: Weight = "note" if len(survived) == len(ones) else "minor"
        first = survived[0].mutant
        message = f"{_quoted(trials.field)} may be wrong in some entries: {first.change}"
        fix = "compare every entry, or say in the instruction which share of them must be right"
        return self._finding("some-entries-unchecked", trials.field, weight, message, fix, survived)

    def _rows(self, trials: FieldTrials) -> Iterator[CheckFinding]:
        gone = [one for one in trials.of("row-missing") if not one.killed]
        if gone:
            weight: Weight = "minor" if len(gone) == len(trials.of("row-missing")) else "note"
            message = f"entries may be missing: {_changes(gone)}"
            yield self._finding("entry-may-be-missing", gone[0].mutant.field, weight, message, "count them", gone)
        for kind, (code, fix) in _ROW_KINDS.items():
            one = trials.survived(kind)
            if one and not (kind == "swapped" and trials.survived(*FIELD_KINDS)):
                message = f"a wrong answer is accepted: {one.mutant.change}"
                yield self._finding(code, one.mutant.subject, "minor", message, fix, [one])

    def _code_findings(self, trials: FieldTrials) -> Iterator[CheckFinding]:
        fix = "add a test that calls it and compares what comes back"
        nothing = trials.survived("does-nothing", "always-true", "always-false")
        slips = trials.of("slip")
        lived = [one for one in slips if not one.killed]
        if nothing:
            weight: Weight = "major" if trials.named else "note"
            message = f"no test needs `{trials.field}`: the answer is accepted when {nothing.mutant.change}"
            yield self._finding("function-not-tested", trials.field, weight, message, fix, [nothing])
        elif len(slips) >= _FEWEST_SLIPS and len(lived) * 2 > len(slips):
            message = f"tests see little of `{trials.field}`: {len(lived)} of {len(slips)} slips in it are accepted"
            yield self._finding("slips-accepted", trials.field, "minor", message, fix, lived)

    def _finding(
        self, code: str, name: str, weight: Weight, message: str, fix: str, ones: Sequence[JudgedMutant]
    ) -> CheckFinding:
        changes = [one.mutant.change for one in ones][:_EXAMPLES]
        evidence: JsonObject = {"file": self._answer.path, "accepted": changes}
        return finding_of("V5", self._subject, f"{code}:{name}", weight, message, fix, ones[0].case, evidence)


def _weight(trials: FieldTrials) -> Weight:
    return "major" if trials.named else "minor"


def _quoted(field: str) -> str:
    return field if field.startswith("the ") else f"`{field}`"


def _changes(ones: Sequence[JudgedMutant]) -> str:
    return "; ".join(one.mutant.change for one in ones[:3])
