"""What expressions of a Python source certainly stand for, as far as that can be seen without running it.

A name counts where it is given one value in its function, or one in the module. A function without arguments that
only returns something, such as a fixture of pytest, stands for what it returns.
"""

import ast
import posixpath
from collections.abc import Iterator

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
