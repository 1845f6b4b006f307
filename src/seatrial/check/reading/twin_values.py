"""Where a verifier has the right answer: literals of its tests that are values of an accepted answer.

Only literals that something is compared with count. A tolerance, a limit or a condition that happens to be the same
number is no expected value, and a change of it would say nothing.
"""

import ast
import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from seatrial.check.cases import AcceptedAnswer
from seatrial.check.reading.python_values import PythonValues, called, parse
from seatrial.verifier_kit import json_blocks

_CLOSE = 1e-3
_MAX_VALUES = 2000
_MIN_TEXT, _MAX_TEXT = 3, 60
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_COMPARES = re.compile(r"equal|close|approx|compare|exact|match|expect|same|check", re.IGNORECASE)
EXPECTED_NAME = re.compile(r"expect|golden|truth|reference|answer|correct|want|solution", re.IGNORECASE)
"""How a name says that it stands for what an answer has to be."""

_JSON_TOKEN = re.compile(r'(?<=[:\[,])(\s*)(-?\d[\d.eE+-]*|"(?:[^"\\]|\\.)*")(?=\s*[,\]}])')
_SHELL_COMPARISON = re.compile(r"^[^#\n]*(?:\bgrep\b|\btest\s|\[\s|==).*$", re.MULTILINE)
_SHELL_WORD = re.compile(r"(?<=[\s\"'=])[A-Za-z0-9._-]+(?=[\s\"'\])]|$)")

Scalar = int | float | str


@dataclass(frozen=True, slots=True)
class ExpectedValue:
    """A literal of a test file: which bytes of it, in which line, and the value that it stands for."""

    file: str
    line: int
    start: int
    end: int
    value: Scalar


@dataclass(frozen=True, slots=True)
class AnswerValues:
    """The numbers and texts that an accepted answer is made of, without those that are everywhere."""

    numbers: tuple[float, ...]
    texts: frozenset[str]

    def has(self, value: object) -> bool:
        """Whether a literal is one of them; numbers may be rounded."""
        if isinstance(value, str):
            return value in self.texts
        if isinstance(value, bool) or not isinstance(value, int | float) or _is_common(value):
            return False
        return any(math.isclose(abs(value), number, rel_tol=_CLOSE) for number in self.numbers)


def _is_common(value: float) -> bool:
    return not math.isfinite(value) or abs(value) in (0, 1)


def values_of(answers: Iterable[AcceptedAnswer]) -> AnswerValues:
    """What the answers say, by their values."""
    numbers: set[float] = set()
    texts: set[str] = set()
    for answer in answers:
        text = answer.content.decode("utf-8", "replace")
        for value in _scalars(text):
            if isinstance(value, str):
                texts.add(value)
            elif not isinstance(value, bool) and isinstance(value, int | float) and not _is_common(value):
                numbers.add(abs(float(value)))
    told = {text for text in texts if _MIN_TEXT <= len(text) <= _MAX_TEXT and text.strip() == text}
    return AnswerValues(tuple(sorted(numbers)[:_MAX_VALUES]), frozenset(sorted(told)[:_MAX_VALUES]))


def _scalars(text: str) -> Iterator[Any]:
    for body in [text, *(block.body for block in json_blocks(text))]:
        try:
            yield from _leaves(json.loads(body))
        except (ValueError, RecursionError):
            continue
    if len(text) < _MAX_TEXT:
        yield text.strip()
    yield from (float(number) for number in _NUMBER.findall(text[: 2**20]))


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def expected_values(file: str, content: bytes, answer: AnswerValues) -> Iterator[ExpectedValue]:
    """The literals of a test file that are values of the answer and that something is compared with."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return
    if file.endswith(".py"):
        yield from _in_python(file, text, answer)
    elif file.endswith(".json"):
        yield from _by_pattern(file, text, _JSON_TOKEN.finditer(text), answer, quoted=True)
    elif file.endswith(".sh"):
        for line in _SHELL_COMPARISON.finditer(text):
            words = _SHELL_WORD.finditer(text, line.start(), line.end())
            yield from _by_pattern(file, text, words, answer, quoted=False)


def _by_pattern(
    file: str, text: str, found: Iterable[re.Match[str]], answer: AnswerValues, *, quoted: bool
) -> Iterator[ExpectedValue]:
    for match in found:
        token = match[2] if quoted else match[0]
        value = _read(token, quoted=quoted)
        if value is not None and answer.has(value):
            start = len(text[: match.end() - len(token)].encode())
            yield ExpectedValue(file, text.count("\n", 0, match.start()) + 1, start, start + len(token.encode()), value)


def _read(token: str, *, quoted: bool) -> Scalar | None:
    try:
        value = json.loads(token)
    except ValueError:
        return None if quoted else token
    return value if isinstance(value, int | float | str) else None


def _in_python(file: str, text: str, answer: AnswerValues) -> Iterator[ExpectedValue]:
    values = parse(text)
    if values is None:
        return
    lines = text.encode().splitlines(keepends=True)
    for node in values.nodes:
        if not isinstance(node, ast.Constant) or not isinstance(node.value, int | float | str):
            continue
        if node.lineno == node.end_lineno and answer.has(node.value) and _is_expected(values, node):
            before = sum(len(line) for line in lines[: node.lineno - 1])
            end = before + (node.end_col_offset or node.col_offset)
            yield ExpectedValue(file, node.lineno, before + node.col_offset, end, node.value)


def _is_expected(values: PythonValues, literal: ast.Constant) -> bool:
    """Whether a literal is what something has to be: one side of a comparison, or part of a table of such values."""
    inner: ast.AST = literal
    for outer in values.ancestors(literal):
        if isinstance(outer, ast.Compare):
            return [type(each) for each in outer.ops] == [ast.Eq] and not _is_condition(values, outer)
        if isinstance(outer, ast.Call):
            named = _COMPARES.search(called(outer)) and len(outer.args) > 1 and inner in outer.args[1:]
            return bool(named) or (called(outer) == "abs" and _is_difference(inner))
        if isinstance(outer, ast.Assign | ast.AnnAssign):
            targets = outer.targets if isinstance(outer, ast.Assign) else [outer.target]
            return any(isinstance(each, ast.Name) and EXPECTED_NAME.search(each.id) for each in targets)
        if not isinstance(outer, ast.UnaryOp | ast.Dict | ast.List | ast.Tuple | ast.Set | ast.BinOp):
            return False
        inner = outer
    return False


def _is_difference(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)


def _is_condition(values: PythonValues, test: ast.Compare) -> bool:
    """Whether a comparison only chooses what to look at, or is one way of several."""
    inner: ast.AST = test
    for outer in values.ancestors(test):
        if isinstance(outer, ast.If | ast.IfExp | ast.While):
            return inner is outer.test
        if isinstance(outer, ast.comprehension | ast.BoolOp):
            return True
        if isinstance(outer, ast.stmt):
            return False
        inner = outer
    return False
