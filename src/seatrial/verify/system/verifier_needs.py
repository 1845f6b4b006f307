"""What a verifier brings along for itself: the programs and packages that its scripts install before they judge.

They must not be the agent's: an installer that finds something of that name already there leaves it as it is.
"""

import ast
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from seatrial.verify.system.facts import plain_name

_CONTINUED = re.compile(r"\\\n")
_INSTALL = re.compile(
    r"\b(apt-get|apt|aptitude|dpkg|apk|dnf|yum|pip3?|uv|pipx|npm|conda|mamba|gem|brew)\b[^;&|\n]*?"
    r"\s(?:install|add|i|-i)\b([^;&|\n]*)"
)
_UVX = re.compile(r"\b(uvx|uv\s+tool\s+run|uv\s+run)\b([^;&|\n]*)")
_UV_INSTALLER = re.compile(r"astral\.sh/uv")
_GOES_TO = re.compile(r"\b(?:cd|pushd)\s+(?:--\s+)?[\"']?((?:\$\{?\w|[\w./@+])[\w./@+:${}-]*)")
_ASSIGNED = re.compile(r"^\s*(?:export\s+|readonly\s+|local\s+)?(\w+)=[\"']?([\w./@+:${}-]*)", re.MULTILINE)
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::?-([\w./@+-]*))?\})")
_PYTHON_PATH = re.compile(r"\bPYTHONPATH=([\"']?[^\s;&|\"']+)")
_DEEPEST = 20
_NAME = re.compile(r"[A-Za-z][\w.-]*")
_OF_PYTHON = ("pip", "pip3", "uv", "pipx", "conda", "mamba")
_PACKAGES = ("apt-get", "apt", "aptitude", "dpkg")
# pytest and what it is made of: nobody installs its parts by name.
RUNNER = frozenset({"pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "exceptiongroup", "py"})


@dataclass(frozen=True, slots=True)
class VerifierNeeds:
    """What a verifier installs, by names in small letters, and whether it uses the packages of the distribution.

    `modules` are those that Python's installers get, by the names in which distributions are compared.
    `folders` are those in which its scripts have Python look for modules, because they go or point there; if not
    absolute, from where the verifier starts.
    """

    installs: frozenset[str] = frozenset()
    modules: frozenset[str] = frozenset()
    uses_packages: bool = False
    folders: frozenset[str] = frozenset()


def find_needs(scripts: Iterable[str]) -> VerifierNeeds:
    """What some scripts install for themselves."""
    found: set[str] = set()
    modules: set[str] = set()
    folders: set[str] = set()
    uses_packages = False
    for script in scripts:
        text = _CONTINUED.sub(" ", script)
        paths = [path.strip("\"'") for paths in _PYTHON_PATH.findall(text) for path in paths.split(":")]
        folders.update(_gone_to(text), (posixpath.normpath(path) for path in paths if path.startswith("/")))
        for match in _INSTALL.finditer(text):
            uses_packages |= match[1] in _PACKAGES
            found.update(_names(match[2]))
            modules.update(_names(match[2]) if match[1] in _OF_PYTHON else ())
        for match in _UVX.finditer(text):
            found.update(_names(match[2]))
            modules.update(_names(match[2]) if match[1].split() != ["uv", "run"] else ())
        if _UV_INSTALLER.search(text):
            found.update(("uv", "uvx"))
    plain = frozenset(map(plain_name, modules))
    return VerifierNeeds(frozenset(found), plain, uses_packages, frozenset(folders - {"/"}))


def _gone_to(script: str) -> Iterator[str]:
    """The folders that a shell script goes to, one from the other; those that depend on what it finds are left out."""
    known: dict[str, str] = {}
    for name, value in _ASSIGNED.findall(script):
        if "$" not in (plain := _with_variables(value, known)):
            known.setdefault(name, plain)
    current = ""
    for match in _GOES_TO.finditer(script):
        folder = _with_variables(match[1], known)
        if "$" not in folder:
            current = posixpath.normpath(posixpath.join(current, folder))
            yield current


def _with_variables(text: str, known: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda match: known.get(match[1] or match[2], match[3] or "$"), text)


def folders_in_python(code: str) -> frozenset[str]:
    """The folders that Python code goes to or starts programs in, as far as it names them."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    known: dict[str, str] = {}
    found: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            known.setdefault(node.targets[0].id, _path(node.value, known) or "")
        elif isinstance(node, ast.Call):
            found += [each.value for each in node.keywords if each.arg == "cwd"]
            found += node.args[:1] if isinstance(node.func, ast.Attribute) and node.func.attr == "chdir" else []
    return frozenset(posixpath.normpath(path) for each in found if (path := _path(each, known)))


def _path(node: ast.expr, known: Mapping[str, str], depth: int = 0) -> str | None:
    """The path that an expression plainly stands for."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.Call) and node.args and depth < _DEEPEST:
        return _path(node.args[0], known, depth + 1)  # Path("…") or str(…)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and depth < _DEEPEST:
        parts = [_path(each, known, depth + 1) for each in (node.left, node.right)]
        return posixpath.join(*filter(None, parts)) if all(parts) else None
    return None


def _names(arguments: str) -> Iterator[str]:
    for word in arguments.split():
        name = _NAME.match(word.strip("\"'"))
        if name and not word.startswith("-"):
            yield name[0].lower()
