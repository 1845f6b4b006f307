"""Accepted answers as checks work on them: which ones are worth it, cases with another file in their place, verdicts.

A verdict `falls` when its reward is below that of the accepted answer, by however little.
"""

import json
import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from seatrial.check.answers import Vocabulary
from seatrial.check.cases import AcceptedAnswer, Case, CaseVerdict, Subject, case_id
from seatrial.model.check import CheckId
from seatrial.trial.end_state import Edit

MAX_ANSWERS = 3
NO_ANSWER = "there is no file of an accepted answer that could be changed"
_LEAST_FALL = 1e-9


def vocabulary(subject: Subject) -> Vocabulary:
    return Vocabulary(subject.instruction, subject.tests)


def chosen_answers(subject: Subject) -> list[AcceptedAnswer]:
    """One accepted answer of each file that the instruction asks for, the declared output first.

    What else a solution wrote is its own business. An answer without a reward cannot fall.
    """
    found: dict[str, AcceptedAnswer] = {}
    for answer in subject.answers:
        if answer.reward > 0 and _is_asked_for(answer, subject):
            found.setdefault(answer.path, answer)
    return list(found.values())[:MAX_ANSWERS]


def _is_asked_for(answer: AcceptedAnswer, subject: Subject) -> bool:
    output = subject.task.output
    if answer.path == output.path:
        return True
    handed_out = {candidate.path for candidate in output.candidates if candidate.role == "input"}
    return answer.path not in handed_out and posixpath.basename(answer.path) in subject.instruction


def is_main(answer: AcceptedAnswer, subject: Subject) -> bool:
    """Whether an answer is the output that the task declares or asks for, not only one that it mentions."""
    output = subject.task.output
    return answer.path == output.path and output.source in ("declared", "inferred")


@dataclass(frozen=True, slots=True)
class Variant:
    """Other bytes, or another kind of file, in the place of an accepted answer."""

    answer: AcceptedAnswer
    case: Case


class Variants:
    """Makes the cases of one check, each with an id of its own."""

    def __init__(self, check: CheckId) -> None:
        self._check = check
        self._ids: set[str] = set()

    def make(self, answer: AcceptedAnswer, edits: Iterable[Edit], *parts: str, worth: int = 0) -> Variant:
        """A case on an answer's own end state with some edits; `parts` say which one it is."""
        name = self._free(case_id(self._check, posixpath.basename(answer.path), *parts))
        return Variant(answer, Case(name, self._check, answer.state, tuple(edits), worth=worth))

    def replaced(self, answer: AcceptedAnswer, content: bytes, *parts: str, worth: int = 0) -> Variant:
        """A case with other bytes in an answer's place."""
        return self.make(answer, [Edit(answer.path, content)], *parts, worth=worth)

    def _free(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self._ids:
            number += 1
            name = f"{wanted}-{number}"
        self._ids.add(name)
        return name


def judged(variant: Variant, verdicts: Mapping[str, CaseVerdict]) -> CaseVerdict | None:
    """What the verifier said, None if it was not asked or could not be."""
    verdict = verdicts.get(variant.case.id)
    return verdict if verdict and verdict.evaluation is not None and verdict.failure is None else None


def falls(variant: Variant, verdict: CaseVerdict) -> bool:
    """Whether a verdict is worse than that on the accepted answer."""
    return (verdict.reward or 0.0) < variant.answer.reward - _LEAST_FALL


# Stand-ins: wrong answers that look right, which a cheat leaves behind so that its verifier gets as far as it can. A
# cheat pays only if it is worth more than its stand-in.

_MAX_DEPTH = 20
_WRONG_TEXT = "stand-in"
_DIGIT = re.compile(rb"[1-9]")
_EMPTY_CODE = {".py": "# nothing\n", ".sh": "#!/bin/sh\nexit 1\n", ".js": "process.exit(1)\n"}


def output_path(subject: Subject) -> str | None:
    """Where the task's answer belongs, None where nobody knows."""
    if subject.task.output.path:
        return subject.task.output.path
    paths = {answer.path for answer in subject.answers}
    return paths.pop() if len(paths) == 1 else None  # of several, any may be an input that the solution touched


def stand_in(subject: Subject) -> Edit | None:
    """A wrong answer for the task's output, None where there is no file to write."""
    path = output_path(subject)
    if path is None or path.endswith("/"):
        return None
    content = _wrong(path, next((answer.content for answer in subject.answers if answer.path == path), b""))
    return Edit(path, content, mode=0o755 if path.endswith(".sh") else 0o644)


def _wrong(path: str, right: bytes) -> bytes:
    suffix = posixpath.splitext(path)[1].lower()
    if suffix in _EMPTY_CODE:
        return _EMPTY_CODE[suffix].encode()
    if suffix == ".json":
        try:
            return json.dumps(_emptied(json.loads(right))).encode()
        except (ValueError, RecursionError):
            return b"{}\n"
    zeros = _DIGIT.sub(b"0", right)
    return zeros if zeros != right else f"{_WRONG_TEXT}\n".encode()


def _emptied(value: Any, depth: int = 0) -> Any:
    """The same shape with other values: zeros, and words that mean nothing."""
    if depth > _MAX_DEPTH:
        return None
    if isinstance(value, dict):
        return {key: _emptied(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_emptied(item, depth + 1) for item in value[:1]]
    if isinstance(value, str):
        return _WRONG_TEXT
    return value if isinstance(value, bool) or value is None else 0
