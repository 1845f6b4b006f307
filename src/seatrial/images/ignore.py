"""Which files of a build context do not count: the patterns of a `.dockerignore` file.

The last pattern that fits decides; one with `!` brings back. A pattern that fits a directory fits all that is in it.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from seatrial.errors import BuildError

_SPECIAL = frozenset(".+()|{}$^")


@dataclass(frozen=True, slots=True)
class _Rule:
    fits: re.Pattern[str]
    verdict: bool


class IgnoreRules:
    """The rules of one file, or of none."""

    def __init__(self, lines: Iterable[str] = (), name: str = ".dockerignore") -> None:
        """Raises BuildError with file and line for a pattern that cannot be one."""
        self._rules = []
        for number, line in enumerate(lines, 1):
            pattern = line.removeprefix("\ufeff") if number == 1 else line
            if pattern.startswith("#") or not pattern.strip():
                continue
            try:
                self._rules.append(_read_rule(pattern.strip()))
            except ValueError as error:
                raise BuildError(f"{name}:{number}: {error}") from None

    def __bool__(self) -> bool:
        return bool(self._rules)

    def ignores(self, path: str) -> bool:
        """Whether something does not count; `path` is relative to the context, with `/`."""
        ends = [index for index, letter in enumerate(path) if letter == "/"]
        prefixes = [path[:end] for end in ends] + [path]
        verdict = False
        for rule in self._rules:
            if rule.verdict != verdict and any(rule.fits.fullmatch(prefix) for prefix in prefixes):
                verdict = rule.verdict
        return verdict


def read_ignore_rules(context: Path, dockerfile: Path) -> IgnoreRules:
    """The rules for a Dockerfile: its own, if there is a `NAME.dockerignore` beside it, else the context's."""
    for path in (dockerfile.with_name(f"{dockerfile.name}.dockerignore"), context / ".dockerignore"):
        try:
            text = path.read_text(encoding="utf-8", errors="surrogateescape")
        except FileNotFoundError:
            continue
        except OSError as error:
            raise BuildError(f"{path}: it cannot be read: {error.strerror}") from error
        return IgnoreRules(text.splitlines(), str(path))
    return IgnoreRules()


def _read_rule(pattern: str) -> _Rule:
    brings_back = pattern.startswith("!")
    pattern = pattern.removeprefix("!").strip() if brings_back else pattern
    if not pattern:
        raise ValueError("a `!` with nothing behind it")
    clean = _clean(pattern)
    return _Rule(compile_pattern(clean), not brings_back)


def _clean(pattern: str) -> str:
    """Without what makes no difference: leading and doubled slashes, `.` and, as far as they go, `..`."""
    parts: list[str] = []
    for part in pattern.split("/"):
        if part == ".." and parts:
            parts.pop()
        elif part not in ("", ".", ".."):
            parts.append(part)
    return str(PurePosixPath(*parts)) if parts else "."


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """`*` and `?` match within a name, `**` any number of directories. Raises ValueError."""
    found, position = "", 0
    while position < len(pattern):
        letter = pattern[position]
        position += 1
        if pattern.startswith("**", position - 1):
            position += 1
            rest = pattern[position:]
            position += rest.startswith("/")
            found += "(?:.*/)?" if rest and rest != "/" else ".*"
        elif letter in "*?":
            found += "[^/]*" if letter == "*" else "[^/]"
        elif letter == "\\":
            found += re.escape(pattern[position : position + 1])
            position += 1
        elif letter == "[":
            end = _class_end(pattern, position)
            found += _class(pattern[position:end], pattern)
            position = end + 1
        else:
            found += f"\\{letter}" if letter in _SPECIAL else letter
    return re.compile(found, re.DOTALL)


def _class_end(pattern: str, start: int) -> int:
    position = start + (pattern[start : start + 1] == "^")
    while position < len(pattern) and pattern[position] != "]":
        position += 2 if pattern[position] == "\\" else 1
    if position >= len(pattern) or position == start:
        raise ValueError(f"a `[` in {pattern!r} has no `]`, or nothing before it")
    return position


def _class(content: str, pattern: str) -> str:
    negated = content.startswith("^")
    inside = re.sub(
        r"\\(.)|(.)", lambda letter: _class_letter(letter[1], letter[2]), content[negated:], flags=re.DOTALL
    )
    found = f"(?!/)[{'^' if negated else ''}{inside}]"
    try:
        re.compile(found)
    except re.error:
        raise ValueError(f"[{content}] in {pattern!r} is no set of letters") from None
    return found


def _class_letter(escaped: str | None, plain: str | None) -> str:
    if escaped is not None:
        return re.escape(escaped)
    assert plain is not None  # noqa: S101 - one of the two
    return plain if plain == "-" else re.escape(plain)
