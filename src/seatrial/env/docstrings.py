"""What a docstring says of a function: its description, and a line or more on each argument.

Three ways of writing are read: sections with a colon (Google), sections with a rule below (numpy), and fields (reST).
"""

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

_ARGUMENTS = frozenset({"args", "arguments", "params", "parameters", "keyword args", "keyword arguments"})
_OTHERS = frozenset(
    {
        *("attributes", "example", "examples", "note", "notes", "raises", "references", "return", "returns"),
        *("see also", "todo", "warning", "warnings", "warns", "yield", "yields"),
    }
)
_FIELD = re.compile(r":(?P<kind>\w+)(?: (?P<about>[^:]*))?:\s*(?P<text>.*)")
_FIELDS = frozenset({"param", "parameter", "arg", "argument", "key", "keyword", "type", "raises", "return", "returns"})
_GOOGLE_ARGUMENT = re.compile(r"\*{0,2}(?P<name>\w+)\s*(?:\([^)]*\))?\s*:\s*(?P<text>.*)")
_NUMPY_ARGUMENT = re.compile(r"\*{0,2}(?P<names>\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?")


@dataclass(slots=True)
class Docstring:
    """The text before everything else, and the text on each argument that there is one on."""

    description: str = ""
    arguments: dict[str, str] = field(default_factory=dict)


def read_docstring(text: str | None) -> Docstring:
    """What a docstring says."""
    lines = inspect.cleandoc(text or "").splitlines()
    if any(_is_field(line) for line in lines):
        return _read_fields(lines)
    if any(_is_ruled(lines, at) for at in range(len(lines))):
        return _read_ruled(lines)
    return _read_google(lines)


def _is_field(line: str) -> bool:
    found = _FIELD.fullmatch(line)
    return found is not None and found["kind"] in _FIELDS


def _read_fields(lines: list[str]) -> Docstring:
    first = next(at for at, line in enumerate(lines) if _is_field(line))
    said = Docstring(_joined(lines[:first]))
    for entry in _entries(lines[first:], lambda line: line.startswith(":")):
        found = _FIELD.fullmatch(entry[0])
        if found and found["kind"] in _FIELDS - {"type", "raises", "return", "returns"} and found["about"]:
            said.arguments[found["about"].split()[-1].lstrip("*")] = _joined([found["text"], *entry[1:]])
    return said


def _is_ruled(lines: list[str], at: int) -> bool:
    """Whether a section begins here that has a rule below its name."""
    below = lines[at + 1].strip() if at + 1 < len(lines) else ""
    return lines[at].strip().lower() in _ARGUMENTS | _OTHERS and len(below) > 2 and set(below) == {"-"}


def _read_ruled(lines: list[str]) -> Docstring:
    heads = [at for at in range(len(lines)) if _is_ruled(lines, at)]
    said = Docstring(_joined(lines[: heads[0]]))
    for head, end in zip(heads, [*heads[1:], len(lines)], strict=True):
        if lines[head].strip().lower() not in _ARGUMENTS:
            continue
        for entry in _entries(lines[head + 2 : end], lambda line: bool(line) and not line[0].isspace()):
            found = _NUMPY_ARGUMENT.fullmatch(entry[0].strip())
            for name in re.findall(r"\w+", found["names"]) if found else ():
                said.arguments[name] = _joined(entry[1:])
    return said


def _read_google(lines: list[str]) -> Docstring:
    heads = [at for at in range(len(lines)) if _section(lines, at) is not None]
    said = Docstring(_joined(lines[: heads[0]] if heads else lines))
    for head in heads:
        if _section(lines, head) in _ARGUMENTS:
            body = _indented(lines[head + 1 :])
            for entry in _entries(body, lambda line: bool(line) and not line[0].isspace()):
                if found := _GOOGLE_ARGUMENT.fullmatch(entry[0].strip()):
                    said.arguments[found["name"]] = _joined([found["text"], *entry[1:]])
    return said


def _section(lines: list[str], at: int) -> str | None:
    """The name of the section that begins here: a known word with a colon, and something indented below."""
    name = lines[at].removesuffix(":").lower()
    named = lines[at].endswith(":") and name in _ARGUMENTS | _OTHERS
    return name if named and any(line.strip() for line in _indented(lines[at + 1 :])) else None


def _indented(lines: list[str]) -> list[str]:
    """The lines up to the first that is not indented, without what they are indented by."""
    end = next((at for at, line in enumerate(lines) if line and not line[0].isspace()), len(lines))
    return inspect.cleandoc("\n".join(["", *lines[:end]])).splitlines()


def _entries(lines: list[str], begins: Callable[[str], bool]) -> Iterator[list[str]]:
    """Lines in groups, each from one that begins something up to the next such line."""
    entry: list[str] = []
    for line in lines:
        if begins(line):
            if entry:
                yield entry
            entry = [line]
        elif entry:
            entry.append(line)
    if entry:
        yield entry


def _joined(lines: list[str]) -> str:
    return "\n".join(line.strip() for line in lines).strip()
