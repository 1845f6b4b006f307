"""What a verifier written in Python reads of the agent's work: which files, and which keys of their JSON.

Only what is plain to see in the source is told: a path that is spelled out, and a key of the very value that was
parsed from it. What is optional, what the tests write themselves and what must not be there is left out.
"""

import ast
import posixpath
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from seatrial.check.reading.python_values import PythonValues, called, parse

_READERS = frozenset(
    {"open", "read_json", "read_text", "read_bytes", "read_csv", "read_excel", "read_parquet", "loadtxt", "genfromtxt"}
)
_PRESENCE = frozenset({"exists", "isfile", "is_file"})
_WRITERS = frozenset(
    {
        "write_text",
        "write_bytes",
        "mkdir",
        "makedirs",
        "touch",
        "unlink",
        "rename",
        "copy",
        "copyfile",
        "copy2",
        "remove",
    }
)
_PARSERS = frozenset({"load", "loads", "read_json"})
_KEY = re.compile(r"[A-Za-z][A-Za-z_-]+")  # one with a number or a dot in it often is one of many that are alike
_RUNNERS = frozenset({"run", "Popen", "call", "check_call", "check_output", "system", "popen"})
_PARTS = frozenset({"get", "values"})
_DEPTH = 10
_CONDITIONS = (ast.BoolOp, ast.IfExp, ast.If, ast.Try, ast.While)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(slots=True)
class PythonReads:
    """What one file of tests reads: paths, and keys by the path of their file, each with the line that says so."""

    paths: dict[str, int] = field(default_factory=dict)
    keys: dict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))


def python_reads(source: str) -> PythonReads:
    """What a test file reads. Nothing of a file that is no Python, or is too large to look through."""
    values = parse(source)
    found = PythonReads()
    if values:
        _read_paths(values, found)
        _read_keys(values, found)
    return found


def _read_paths(values: PythonValues, found: PythonReads) -> None:
    doubtful = set(_handed_over(values))
    for call in (node for node in values.nodes if isinstance(node, ast.Call)):
        name = called(call)
        for path in _paths_of(values, call):
            if name in _WRITERS or _opens_to_write(call) or (name in _PRESENCE and not _is_asserted(values, call)):
                doubtful.add(path)
            elif name in _READERS | _PRESENCE:
                found.paths.setdefault(path, call.lineno)
    for path in doubtful:
        found.paths.pop(path, None)


def _handed_over(values: PythonValues) -> Iterator[str]:
    """Paths that the tests themselves tell a program of."""
    for call in (node for node in values.nodes if isinstance(node, ast.Call) and called(node) in _RUNNERS):
        for argument in call.args:
            for node in ast.walk(values.meant(argument)):
                text = values.text(node) if isinstance(node, ast.expr) else None
                yield from (posixpath.normpath(word) for word in (text or "").split())


def _paths_of(values: PythonValues, call: ast.Call) -> Iterator[str]:
    """The absolute paths that a call is about: its first arguments, or what its method belongs to."""
    owner = [call.func.value] if isinstance(call.func, ast.Attribute) else []
    for subject in [*owner, *call.args[:2]]:
        path = values.text(subject)
        if path and path.startswith("/") and not path.endswith("/"):
            yield posixpath.normpath(path)


def _opens_to_write(call: ast.Call) -> bool:
    if called(call) != "open":
        return False
    position = 0 if isinstance(call.func, ast.Attribute) else 1
    modes = [*call.args[position : position + 1], *(word.value for word in call.keywords if word.arg == "mode")]
    return any(isinstance(mode, ast.Constant) and set(str(mode.value)) & set("wax+") for mode in modes)


def _is_asserted(values: PythonValues, call: ast.Call) -> bool:
    """Whether a file is required: that it is there is asserted, and neither the opposite nor one way of several."""
    inner: ast.AST = call
    for outer in values.ancestors(call):
        if isinstance(outer, ast.Assert):
            return inner is outer.test
        if isinstance(outer, ast.UnaryOp | ast.BoolOp | ast.IfExp | ast.comprehension | ast.stmt):
            return False
        inner = outer
    return False


def _read_keys(values: PythonValues, found: PythonReads) -> None:
    for node in values.nodes:
        for whole, key in _looked_up(values, node):
            name = key.value if isinstance(key, ast.Constant) else None
            if isinstance(name, str) and _KEY.fullmatch(name) and not _is_optional(values, node):
                path = _parsed_from(values, whole)
                if path:
                    found.keys[path].setdefault(name, key.lineno)


def _looked_up(values: PythonValues, node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Every whole in which a node looks something up, with what it looks up."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        yield node.value, node.slice
    elif isinstance(node, ast.Call) and called(node) == "require_keys" and len(node.args) == 2:
        keys = values.meant(node.args[1])
        elements = keys.elts if isinstance(keys, ast.List | ast.Tuple | ast.Set) else []
        yield from ((node.args[0], key) for key in elements)
    elif isinstance(node, ast.Assert) and isinstance(node.test, ast.Compare):
        # Of a part, this may ask for a piece of a text.
        whole = values.meant(node.test.comparators[0])
        if [type(operator) for operator in node.test.ops] == [ast.In] and isinstance(whole, ast.Call):
            yield whole, node.test.left


def _is_optional(values: PythonValues, node: ast.AST) -> bool:
    """Whether something is looked at only under a condition, or as one way of several."""
    for outer in values.ancestors(node):
        if isinstance(outer, _CONDITIONS):
            return True
        if isinstance(outer, _FUNCTIONS):
            return False
    return False


def _parsed_from(values: PythonValues, node: ast.expr) -> str | None:
    """The path of the file whose JSON an expression is, or is a part of."""
    node = _whole(values, node)
    if not (isinstance(node, ast.Call) and called(node) in _PARSERS and node.args):
        return None
    if called(node) == "read_json":
        path = values.text(node.args[0])
        return posixpath.normpath(path) if path else None
    inner = values.meant(node.args[0])  # json.load(file), json.loads(path.read_text()), json.loads(file.read())
    if isinstance(inner, ast.Call) and called(inner) == "read" and isinstance(inner.func, ast.Attribute):
        inner = values.meant(inner.func.value)
    paths = list(_paths_of(values, inner)) if isinstance(inner, ast.Call) else []
    return paths[0] if paths else None


def _whole(values: PythonValues, node: ast.expr) -> ast.expr:
    """What an expression is a part of: of `data["rows"][0]` it is what `data` stands for."""
    for _ in range(_DEPTH):
        node = values.meant(node)
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call) and called(node) in _PARTS and isinstance(node.func, ast.Attribute):
            node = node.func.value
        else:
            break
    return node
