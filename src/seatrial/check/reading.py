"""Reads a task's texts and the Python of its tests without running anything: which files and keys the tests need."""

import ast
import posixpath
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from seatrial.errors import OversizeError
from seatrial.tasks.layout import list_files, read_text

# What expressions certainly stand for. A name counts where it is given one value in its function, or one in the module.
# A function without arguments that only returns something, such as a fixture, stands for what it returns.

_MOST_NODES = 200_000
_DEPTH = 10
_JOINERS = frozenset({"Path", "PurePath", "PosixPath", "PurePosixPath", "join", "str", "path", "fspath"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_BINDERS = (ast.AnnAssign, ast.AugAssign, ast.For, ast.AsyncFor, ast.NamedExpr, ast.comprehension)
_Scope = ast.AST | None


def called(call: ast.Call) -> str:
    """The last name of what is called, empty for what has none."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _bound_to(node: ast.AST) -> ast.expr | None:
    """What a name is bound to: a value, or in a loop what it goes through, of which the name is a part."""
    if isinstance(node, ast.AnnAssign | ast.NamedExpr):
        return node.value
    return node.iter if isinstance(node, ast.For | ast.comprehension) else None


def parse(source: str) -> "PythonValues | None":
    """The values of a source; None for one that is no Python, or is too large to look through."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return PythonValues(nodes) if len(nodes) <= _MOST_NODES else None


class PythonValues:
    """The nodes of one source, with what contains each of them and what names stand for."""

    def __init__(self, nodes: list[ast.AST]) -> None:
        self.nodes = nodes
        self.parents = {child: node for node in nodes for child in ast.iter_child_nodes(node)}
        self._bound: dict[tuple[_Scope, str], ast.expr | None] = {}
        self._returned: dict[str, ast.expr | None] = {}
        for node in nodes:
            self._bind(node)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """What contains a node, from the inside to the outside."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def text(self, node: ast.expr, depth: int = 0) -> str | None:
        """The text that an expression certainly is: a literal, a name for one, or paths put together."""
        node = self.meant(node)
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else None
        if depth > _DEPTH:
            return None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            return self._joined([node.left, node.right], depth)
        if isinstance(node, ast.Call) and called(node) in _JOINERS and node.args:
            return self._joined(node.args, depth)
        return None

    def meant(self, node: ast.expr) -> ast.expr:
        """The expression that a name, or a call of a function without arguments, stands for; else itself."""
        for _ in range(_DEPTH):
            value = self._value(node)
            if value is None:
                return node
            node = value
        return node

    def _value(self, node: ast.expr) -> ast.expr | None:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.args and not node.keywords:
            return self._returned.get(node.func.id)
        if not isinstance(node, ast.Name):
            return None
        for scope in [*(each for each in self.ancestors(node) if isinstance(each, _FUNCTIONS)), None]:
            if (scope, node.id) in self._bound:
                return self._bound[scope, node.id]
        return None

    def _joined(self, nodes: list[ast.expr], depth: int) -> str | None:
        texts = [self.text(node, depth + 1) for node in nodes]
        known = [text for text in texts if text is not None]
        return posixpath.join(*known) if known and len(known) == len(texts) else None

    def _bind(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._bind_target(target, node.value)
        elif isinstance(node, _BINDERS):
            self._bind_target(node.target, _bound_to(node))
        elif isinstance(node, ast.withitem) and node.optional_vars:
            self._bind_target(node.optional_vars, node.context_expr)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self._bind_function(node)

    def _bind_target(self, target: ast.expr, value: ast.expr | None) -> None:
        for name in [each for each in ast.walk(target) if isinstance(each, ast.Name)]:
            scope = next((each for each in self.ancestors(name) if isinstance(each, _FUNCTIONS)), None)
            alone = name is target and (scope, name.id) not in self._bound
            self._bound[scope, name.id] = value if alone else None

    def _bind_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        returns = [each for each in ast.walk(node) if isinstance(each, ast.Return | ast.Yield)]
        known = returns[0].value if len(returns) == 1 and node.name not in self._returned else None
        self._returned[node.name] = known
        for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
            # A parameter that is called like a function of the file is a fixture of pytest.
            fixture = ast.Call(ast.Name(argument.arg, ast.Load()), [], [])
            self._bound[node, argument.arg] = fixture


# Which files and JSON keys a verifier in Python reads. Only what is spelled out is reported, and only keys of the value
# that was parsed; what is optional, or must not be there, or is written by the tests themselves is left out.

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
_CONDITIONS = (ast.BoolOp, ast.IfExp, ast.If, ast.Try, ast.While)


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


# The text files of a task's folders, within bounds.

_MAX_FILE_BYTES = 2**19
_MAX_FILES = 2000


@lru_cache(maxsize=8)
def texts_below(root: Path, folder: str) -> Mapping[str, str]:
    """The text files in a folder of a task, by their paths in the task. What is large or no text is left out."""
    return MappingProxyType(dict(_texts(root, folder)))


def _texts(root: Path, folder: str) -> Iterator[tuple[str, str]]:
    for path in file_names(root, folder)[:_MAX_FILES]:
        try:
            text = read_text(root / path, _MAX_FILE_BYTES, "replace")
        except (ValueError, OSError):
            continue
        if "\0" not in text:
            yield path, text


def file_names(root: Path, folder: str) -> list[str]:
    """The regular files in a folder of a task, by their paths in the task; none if they cannot be listed."""
    try:
        files = list_files(root)
    except (OSError, OversizeError):
        return []
    return sorted(path for path in files.regular if path.startswith(f"{folder}/"))
