"""Mutants of an answer by its format: a bounded number, the same ones in every run, each really different.

Those of code and text are made here, those of data in `mutants`.
"""

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from typing import cast

from seatrial.check.answers import MAX_DATA_BYTES, Vocabulary, read_data
from seatrial.check.mutants import (
    CLOSE,
    CLOSER,
    DataMutants,
    Mutant,
    MutantKind,
    bounded,
    far_off,
    is_answer_word,
    opposite,
    scaled,
)
from seatrial.model.output import OutputFormat, format_of

# Python: functions that do nothing, and slips where the instruction speaks of them: in a function that it names, or on
# a number that it gives. Others could be in dead code or in messages, and would say nothing.

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitXor: ast.BitOr, ast.BitAnd: ast.BitOr,
}  # fmt: skip
_NOTHING: tuple[tuple[MutantKind, str, str], ...] = (
    ("does-nothing", "return None", "returns nothing"),
    ("always-true", "return True", "always returns True"),
    ("always-false", "return False", "always returns False"),
)


class PythonMutants:
    """Makes the mutants of one Python file."""

    def __init__(self, source: str, tree: ast.Module, words: Vocabulary) -> None:
        self._source = source
        self._tree = tree
        self._words = words
        self._functions = list(_functions(tree))

    def rounds(self) -> Iterator[Iterable[Mutant]]:
        """All mutants, those that say most first: functions that the instruction names, then others, then slips."""
        named = [pair for pair in self._functions if self._words.names(pair[1].name)]
        others = [pair for pair in self._functions if not self._words.names(pair[1].name)]
        for chosen in (named, others):
            yield self._emptied(chosen)
        yield self._decided(named)
        yield self._slips(named)

    def _emptied(self, functions: list[tuple[str, _Function]]) -> Iterator[Mutant]:
        for name, function in functions:
            if not _is_trivial(function):
                yield from self._body(name, function, _NOTHING[0])

    def _decided(self, functions: list[tuple[str, _Function]]) -> Iterator[Mutant]:
        for name, function in functions:
            if _is_predicate(function):
                for answer in _NOTHING[1:]:
                    yield from self._body(name, function, answer)

    def _body(self, name: str, function: _Function, what: tuple[MutantKind, str, str]) -> Iterator[Mutant]:
        kind, statement, does = what
        first, last = function.body[0], function.body[-1]
        content = self._replaced(first, last, statement)
        if content is not None:
            yield Mutant(kind, name, name, f"`{name}` {does}", content, self._words.names(function.name))

    def _slips(self, functions: list[tuple[str, _Function]]) -> Iterator[Mutant]:
        for name, function in functions:
            slips = [*self._numbers(function), *self._conditions(function), *self._operators(function)]
            for number, (node, new, change) in enumerate(slips):
                content = self._replaced(node, node, new)
                if content is not None:
                    yield Mutant("slip", name, name, f"in `{name}`, {change}", content, label=str(number + 1))

    def _numbers(self, function: _Function) -> Iterator[tuple[ast.expr, str, str]]:
        for node in ast.walk(function):
            value = node.value if isinstance(node, ast.Constant) else None
            if isinstance(value, bool) or not isinstance(value, int | float) or value in (0, 1):
                continue
            if self._words.says_number(value):
                wrong = value + 1
                yield cast("ast.expr", node), repr(wrong), f"{value} is {wrong} (line {cast('ast.expr', node).lineno})"

    def _conditions(self, function: _Function) -> Iterator[tuple[ast.expr, str, str]]:
        """Conditions turned round; not those of `while`, which would never end."""
        for node in ast.walk(function):
            if isinstance(node, ast.If | ast.IfExp):
                yield node.test, f"(not ({ast.unparse(node.test)}))", f"the condition in line {node.lineno} is reversed"

    def _operators(self, function: _Function) -> Iterator[tuple[ast.expr, str, str]]:
        for node in ast.walk(function):
            if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS and not _is_text(node):
                turned = ast.BinOp(node.left, _OPERATORS[type(node.op)](), node.right)
                yield node, f"({ast.unparse(turned)})", f"the operator in line {node.lineno} is another one"

    def _replaced(self, first: ast.stmt | ast.expr, last: ast.stmt | ast.expr, new: str) -> bytes | None:
        """The source with other text from the start of one node to the end of another; None if that is no Python."""
        lines = self._source.encode().splitlines(keepends=True)
        if last.end_lineno is None or last.end_col_offset is None:
            return None
        before = b"".join(lines[: first.lineno - 1]) + lines[first.lineno - 1][: first.col_offset]
        after = lines[last.end_lineno - 1][last.end_col_offset :] + b"".join(lines[last.end_lineno :])
        content = before + new.encode() + after
        changed = read_python(content)
        return content if changed is not None and ast.dump(changed) != ast.dump(self._tree) else None


def read_python(content: bytes) -> ast.Module | None:
    """The syntax tree of a file, None if it is no Python."""
    try:
        return ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _functions(tree: ast.Module) -> Iterator[tuple[str, _Function]]:
    for node in tree.body:
        if isinstance(node, _Function):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, _Function):
                    yield f"{node.name}.{inner.name}", inner


def _is_trivial(function: _Function) -> bool:
    """Whether a function does nothing to begin with: a docstring, `pass`, or an answer of None."""
    return all(
        isinstance(node, ast.Pass)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        or (isinstance(node, ast.Return) and (node.value is None or _is_none(node.value)))
        for node in function.body
    )


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_predicate(function: _Function) -> bool:
    if isinstance(function.returns, ast.Name):
        return function.returns.id == "bool"
    return function.name.startswith(("is_", "has_", "can_", "should_"))


def _is_text(node: ast.BinOp) -> bool:
    """Whether an operator works on text as far as one can see: `"a" + b` and `"%d" % n` would only raise."""
    sides = (node.left, node.right)
    return any(isinstance(side, ast.JoinedStr) or _is_string(side) for side in sides)


def _is_string(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


# Other languages, without any grammar: emptied functions with braces, and numbers one off, both only where the
# instruction names them; comments are left alone.

_SUFFIXES = frozenset(
    """
    c h cc cpp cxx hpp cs go java js jsx kt mjs php pl r rb rs scala sh bash sql swift ts tsx lua jl zig
    """.split()  # noqa: SIM905 - words read better as text
)
_FUNCTION = re.compile(r"\b([A-Za-z_]\w*)\s*\([^(){};]*\)[^(){};=]{0,80}\{")
_KEYWORDS = frozenset({"if", "for", "while", "switch", "catch", "match", "function", "return", "else", "with"})
_NUMBER = re.compile(r"(?<![\w.$\"'#/-])\d+(?:\.\d+)?(?![\w.\"'])")
_COMMENT = re.compile(r"^\s*(?:#|//|/\*|\*|--|;)")
_TURNED = {"==": "!=", "!=": "==", "<=": ">", ">=": "<", "-eq": "-ne", "-ne": "-eq", "-lt": "-ge", "-gt": "-le"}
_COMPARISON = re.compile(r"(?<=\s)(==|!=|<=|>=|-eq|-ne|-lt|-gt)(?=\s)")


def is_other_code(path: str) -> bool:
    """Whether a file is code in a language that is treated as text."""
    name = path.rpartition("/")[2].lower()
    return "." in name and name.rpartition(".")[2] in _SUFFIXES


class TextCodeMutants:
    """Makes the mutants of one file of code."""

    def __init__(self, source: str, name: str, words: Vocabulary) -> None:
        self._source = source
        self._name = name
        self._words = words

    def rounds(self) -> Iterator[Iterable[Mutant]]:
        """All mutants, those that say most first."""
        yield self._emptied()
        yield self._slips(_NUMBER, self._one_off)
        yield self._slips(_COMPARISON, lambda text: _TURNED[text])

    def _emptied(self) -> Iterator[Mutant]:
        for found in _FUNCTION.finditer(self._source):
            name = found[1]
            end = _closing(self._source, found.end())
            if name in _KEYWORDS or not self._words.names(name) or end is None:
                continue
            content = f"{self._source[: found.end()]} {self._source[end:]}".encode()
            yield Mutant("does-nothing", name, name, f"`{name}` does nothing", content)

    def _slips(self, pattern: re.Pattern[str], change: Callable[[str], str | None]) -> Iterator[Mutant]:
        start = 0
        for number, line in enumerate(self._source.split("\n"), start=1):
            if not _COMMENT.match(line):
                for index, found in enumerate(pattern.finditer(line)):
                    new = change(found[0])
                    if new is not None:
                        yield self._slip((start + found.start(), start + found.end()), new, f"{number}.{index}")
            start += len(line) + 1

    def _slip(self, span: tuple[int, int], new: str, label: str) -> Mutant:
        content = f"{self._source[: span[0]]}{new}{self._source[span[1] :]}".encode()
        line = label.partition(".")[0]
        change = f"line {line} of `{self._name}` has `{new}` in place of `{self._source[span[0] : span[1]]}`"
        return Mutant("slip", self._name, self._name, change, content, label=label)

    def _one_off(self, text: str) -> str | None:
        if text in ("0", "1") or not self._words.says_number(float(text)):
            return None
        return str(int(text) + 1) if text.isdigit() else repr(float(text) + 1)


def _closing(source: str, start: int) -> int | None:
    """Where the brace that was opened before `start` is closed."""
    depth = 1
    for index in range(start, len(source)):
        depth += (source[index] == "{") - (source[index] == "}")
        if depth == 0:
            return index
    return None


# Plain text and XML: numbers, the lines of a list, and an answer of one line. Prose is never touched.

# A number that stands alone, or behind a label such as `total:`; not one in a date, a version, a path or a name.
_NUMBER_IN_TEXT = re.compile(r"(?<![\w.:/,-])[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d{1,3})?(?![\w:/,-]|\.\d)")
_LABEL = re.compile(r"([A-Za-z][\w .()/-]{0,40}?)\s*[:=>\"]\s*$")
_XML_LABEL = re.compile(r"<([\w:.-]+)[^<>]*>\s*$|([\w:.-]+)\s*=\s*[\"']\s*$")
_OFF = {"closer": "20 %", "close": "50 %"}
_MAX_TEXT = 4096
_MAX_NUMBERS = 12
_MAX_LIST_WORDS = 3


class TextMutants:
    """Makes the mutants of one short text."""

    def __init__(self, text: str, words: Vocabulary) -> None:
        self._text = text
        self._words = words
        self._lines = text.strip().split("\n")

    def rounds(self) -> Iterator[Iterable[Mutant]]:
        """All mutants, those that say most first."""
        if len(self._text) > _MAX_TEXT or self._is_prose():
            return
        yield self._numbers("far")
        yield self._other_text()
        yield self._numbers("closer")
        yield self._missing_lines()
        yield self._numbers("close")
        yield self._numbers("opposite")

    def _is_prose(self) -> bool:
        """Whether it is a report in sentences, in which numbers have no place of their own."""
        return any(len(line.split()) > 8 and "<" not in line for line in self._lines)

    def _numbers(self, kind: MutantKind) -> Iterator[Mutant]:
        for index, found in enumerate(_NUMBER_IN_TEXT.finditer(self._text)):
            label = self._label(found.start())
            if index >= _MAX_NUMBERS or self._words.leaves_free(label):
                continue
            wrong = self._wrong(found[0], kind)
            if wrong is not None:
                content = f"{self._text[: found.start()]}{wrong}{self._text[found.end() :]}".encode()
                named = self._words.names(label) or len(self._lines) == 1
                change = f"{label} is {wrong} instead of {found[0]}"
                yield Mutant(kind, label, label, change, content, named, _OFF.get(kind, ""))

    def _wrong(self, number: str, kind: MutantKind) -> str | None:
        if kind == "far":
            return str(far_off(number))
        if kind == "opposite":
            return None if len(self._lines) > 1 else opposite(number)
        factor = CLOSER if kind == "closer" else CLOSE
        return None if self._words.widest_tolerance >= factor - 1 else scaled(number, factor)

    def _label(self, start: int) -> str:
        line = self._text.rfind("\n", 0, start) + 1
        before = self._text[line:start]
        found = _XML_LABEL.search(before) or _LABEL.search(before)
        if found:
            return next(group for group in found.groups() if group).strip()
        number = self._text.count("\n", 0, start) + 1
        return "the number" if len(self._lines) == 1 else f"the number in line {number}"

    def _other_text(self) -> Iterator[Mutant]:
        """An answer of one line, as another one of the same letters."""
        answer = self._text.strip()
        if len(self._lines) == 1 and not _NUMBER_IN_TEXT.fullmatch(answer) and answer != answer[::-1]:
            content = self._text.replace(answer, answer[::-1]).encode()
            yield Mutant("far", "the text", "the text", f"the text is {answer[::-1]!r} instead of {answer!r}", content)

    def _missing_lines(self) -> Iterator[Mutant]:
        """A line less, where the lines are a list of names that the task knows."""
        lines = [line for line in self._lines if line.strip()]
        if len(lines) < 2 or any(len(line.split()) > _MAX_LIST_WORDS for line in lines):
            return
        if not all(
            is_answer_word(line.strip(), self._words) or _NUMBER_IN_TEXT.fullmatch(line.strip()) for line in lines
        ):
            return
        last = len(lines) - 1
        for index in dict.fromkeys((last, 0, last // 2)):
            kept = "\n".join(lines[:index] + lines[index + 1 :]) + ("\n" if self._text.endswith("\n") else "")
            subject, change = f"lines[{index + 1}]", f"line {index + 1} of {len(lines)} is missing"
            yield Mutant("row-missing", "lines", subject, change, kept.encode())


MAX_MUTANTS = 60
_MAX_TOTAL_BYTES = 16 * 2**20


def mutants_of(
    content: bytes, path: str, answer_format: OutputFormat | None, words: Vocabulary, limit: int = MAX_MUTANTS
) -> list[Mutant]:
    """Wrong answers like an accepted one; none for what is too large, malformed, or of an unknown format."""
    if not content.strip() or len(content) > MAX_DATA_BYTES:
        return []
    fitting = max(8, min(limit, _MAX_TOTAL_BYTES // len(content)))
    return list(bounded(_rounds(content, path, answer_format, words), content, fitting))


def is_code(path: str) -> bool:
    """Whether an answer is a program, which a verifier may judge by running it."""
    return path.endswith(".py") or is_other_code(path)


def rewritten(content: bytes, path: str, answer_format: OutputFormat | None) -> bytes | None:
    """The same answer as its mutants are written: what they are compared with. None where that is the answer itself."""
    data = read_data(content, answer_format, path)
    again = data.written(data.value) if data else None
    return again if again != content else None


def _rounds(
    content: bytes, path: str, answer_format: OutputFormat | None, words: Vocabulary
) -> Iterator[Iterable[Mutant]]:
    data = read_data(content, answer_format, path)
    if data is not None:
        return DataMutants(data, words).rounds()
    text = _text(content)
    if text is None:
        return iter(())
    if path.endswith(".py"):
        tree = read_python(content)
        return PythonMutants(text, tree, words).rounds() if tree else iter(())
    if is_other_code(path):
        return TextCodeMutants(text, path.rpartition("/")[2], words).rounds()
    kind = answer_format or format_of(path)
    return TextMutants(text, words).rounds() if kind in ("txt", "xml", None) else iter(())


def _text(content: bytes) -> str | None:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text
