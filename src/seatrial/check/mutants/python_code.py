"""Mutants of Python code: functions that do nothing, and slips that plainly matter.

A slip is tried only where the instruction speaks of it: in a function that it names, or on a number that it gives.
Most others could be made in dead code, in messages or in bounds that nothing reaches, and would say nothing.
"""

import ast
from collections.abc import Iterable, Iterator
from typing import cast

from seatrial.check.answers.vocabulary import Vocabulary
from seatrial.check.mutants.mutant import Mutant, MutantKind

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
