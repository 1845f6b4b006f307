"""Which files of a build context do not count: the patterns of a `.dockerignore` file.

The last pattern that fits decides; one with `!` brings back. A pattern that fits a directory fits all that is in it.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from seatrial.errors import BuildError

_MAX_DEEP = 4
_MAX_LETTERS = 2**20


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

    @property
    def empty(self) -> bool:
        """Whether there are no rules at all."""
        return not self._rules

    @property
    def bring_back(self) -> bool:
        """Whether there are rules that bring something back."""
        return not all(rule.verdict for rule in self._rules)

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
            with path.open(encoding="utf-8", errors="surrogateescape") as file:
                text = file.read(_MAX_LETTERS + 1)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise BuildError(f"{path}: it cannot be read: {error.strerror}") from error
        if len(text) > _MAX_LETTERS:
            raise BuildError(f"{path}: it has more than {_MAX_LETTERS:,} letters; is it a list of patterns?")
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
        elif part not in ("", ".", "..") and not (part == "**" and parts[-1:] == ["**"]):
            parts.append(part)
    return str(PurePosixPath(*parts)) if parts else "."


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """`*` and `?` match within a name, `**` any number of directories. Raises ValueError.

    The time a match takes must not be up to whoever wrote the pattern: backtracking is kept in bounds.
    """
    if pattern.count("**") > _MAX_DEEP:
        raise ValueError(f"{pattern!r} has more than {_MAX_DEEP} times `**`")
    found, pieces, position = "", [""], 0
    while position < len(pattern):
        if pattern.startswith("**", position):
            rest = pattern[position + 2 :]
            found += _join(pieces) + ("(?:.*/)?" if rest.strip("/") else ".*")
            pieces, position = [""], position + 2 + rest.startswith("/")
        elif pattern[position] == "*":
            pieces.append("")
            position += 1
        elif pattern[position] == "/":
            found, pieces, position = f"{found}{_join(pieces)}/", [""], position + 1
        else:
            piece, position = _one_letter(pattern, position)
            pieces[-1] += piece
    return re.compile(found + _join(pieces), re.DOTALL)


def _join(pieces: list[str]) -> str:
    """The parts of a name between its stars. But for the last, the first place where one fits is as good as any."""
    if len(pieces) == 1:
        return pieces[0]
    return "".join([pieces[0], *(f"(?>[^/]*?{piece})" for piece in pieces[1:-1]), "[^/]*", pieces[-1]])


def _one_letter(pattern: str, position: int) -> tuple[str, int]:
    """An expression for one letter, and where the pattern goes on."""
    letter = pattern[position]
    if letter == "?":
        return "[^/]", position + 1
    if letter == "\\":
        return re.escape(pattern[position + 1 : position + 2]), position + 2
    if letter == "[":
        end = _class_end(pattern, position + 1)
        return _class(pattern[position + 1 : end], pattern), end + 1
    return re.escape(letter), position + 1


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
