"""V13: impossible twins. One expected value of the tests is changed, so that they contradict the instruction.

The accepted answer must fail a twin. If it does not, nothing looks at that value. And an agent that passes one has
not done what the instruction says: twins can be written out as tasks for real agents.
"""

import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from seatrial.check.cases import Case, CaseVerdict, CheckResult, Subject, case_id
from seatrial.check.conclusion import concluded, skipped
from seatrial.check.reading.twin_values import EXPECTED_NAME, ExpectedValue, Scalar, expected_values, values_of
from seatrial.model.check import CheckFinding, CheckId
from seatrial.trial.verification import VerifierConditions

CHECK: CheckId = "V13"
TITLE = "impossible twins"

_MOST = 6
_SLACK = 1e-6
_KIT = "verifier_kit.py"
_SAMPLES = re.compile(r"(?:^|/)(?:fixtures?|samples?|golden\w*)/")  # answers to try a verifier with


@dataclass(frozen=True, slots=True)
class Twin:
    """A task whose tests expect something else: which of their files is another one, and what was changed in it."""

    number: int
    expected: ExpectedValue
    instead: Scalar
    content: bytes

    @property
    def what(self) -> str:
        """The change in words."""
        return f"{self.expected.value!r} in tests/{self.expected.file}:{self.expected.line} changed to {self.instead!r}"


def twins(subject: Subject) -> Iterator[Twin]:
    """The twins of a task; none of one with steps, or where no expected value is found."""
    if not subject.answers or subject.task.steps:
        return
    first = subject.answers[0]
    answer = values_of(each for each in subject.answers if each.path == first.path)
    seen: set[tuple[str, Scalar]] = set()
    for file, content in sorted(subject.tests.items()):
        for found in expected_values(file, content, answer) if _is_used(file, subject) else ():
            if (file, found.value) not in seen and len(seen) < _MOST:
                seen.add((file, found.value))
                yield _twin(len(seen), found, content)


def _is_used(file: str, subject: Subject) -> bool:
    """Whether the verifier is made of a file: a script of its own, or data that one of its scripts names."""
    name = posixpath.basename(file)
    if name == _KIT or _SAMPLES.search(file):
        return False
    others = (content for path, content in subject.tests.items() if path != file and path.endswith((".py", ".sh")))
    return not name.endswith(".json") or (
        bool(EXPECTED_NAME.search(name)) and any(name.encode() in each for each in others)
    )


def _twin(number: int, found: ExpectedValue, content: bytes) -> Twin:
    instead = _changed(found.value)
    literal = _spelled(content[found.start : found.end], instead)
    return Twin(number, found, instead, content[: found.start] + literal + content[found.end :])


def _changed(value: Scalar) -> Scalar:
    """Another value, further away than any tolerance that makes sense."""
    if isinstance(value, str):
        return f"{value}-twin"
    return value * 3 if isinstance(value, int) else float(f"{value * 3:.12g}")


def _spelled(old: bytes, value: Scalar) -> bytes:
    """A value as the literal that it replaces is written: bare, or as a text in quotes."""
    if isinstance(value, str) and old[:1].isalnum():
        return value.encode()
    return json.dumps(value).encode()


def cases(subject: Subject) -> Iterator[Case]:
    """The accepted answer against each twin."""
    for twin in twins(subject):
        conditions = VerifierConditions(tests={twin.expected.file: twin.content})
        yield Case(_case(twin), CHECK, subject.answers[0].state, conditions=conditions, worth=20)


def _case(twin: Twin) -> str:
    return case_id(CHECK, twin.expected.file, str(twin.expected.value))


def findings(subject: Subject, verdicts: Mapping[str, CaseVerdict]) -> CheckResult:
    """A finding for every expected value that may be another one without any effect."""
    if not subject.answers:
        return skipped(CHECK, "there is no accepted answer whose values could be looked for in the tests")
    right = subject.answers[0].reward
    asked = [(twin, verdicts[_case(twin)]) for twin in twins(subject) if _case(twin) in verdicts]
    judged = [(twin, verdict.reward) for twin, verdict in asked if verdict.reward is not None]
    found = [_finding(subject, twin, reward) for twin, reward in judged if reward >= right - _SLACK]
    return concluded(CHECK, found, {"twins": len(judged), "impossible": len(judged) - len(found)})


def _finding(subject: Subject, twin: Twin, reward: float) -> CheckFinding:
    return CheckFinding(
        check=CHECK,
        code="expected-value-unused",
        subject=f"{twin.expected.file}:{twin.expected.value}",
        weight="minor",
        message=f"with {twin.what}, the accepted answer still gets {reward:g}: that value is not looked at",
        fix="compare the answer with it, or remove it from the tests",
        reproduce=subject.reproduce(_case(twin)),
        case=_case(twin),
        evidence={"line": twin.expected.line, "changed_to": twin.instead, "reward": reward},
    )
