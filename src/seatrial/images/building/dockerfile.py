"""The text of a Dockerfile as instructions: joined lines, flags, here-documents, each with the line it starts on.

What the instructions mean is in `instructions.py`. Nothing here looks at variables.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from seatrial.errors import BuildError
from seatrial.images.building.words import ESCAPE, WordError, parse_list, quotes_match, split_raw, unquote

_DIRECTIVE = re.compile(r"#\s*([a-zA-Z][a-zA-Z0-9]*)\s*=\s*(.+?)\s*")
_DIRECTIVES = frozenset({"syntax", "escape", "check"})
_HEREDOC = re.compile(r"\d*<<(-?)([^<]+)")
_BARE_HEREDOC = re.compile(r"\d*<<-?")
_NAME = re.compile(r"""\w+|'\w+'|"\w+\"""", re.ASCII)
_WITH_HEREDOCS = frozenset({"RUN", "COPY", "ADD"})
_FLAG = re.compile(r"""--(?:[^\s"'\\]|\\.|"(?:[^"\\]|\\.)*"|'[^']*')*(?:\s+|$)""", re.DOTALL)
_FIRST_SPACE = re.compile(r"\s+")
_LEADING_TABS = re.compile(r"^\t+", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Heredoc:
    """A here-document. With `<<-`, `content` still has the tabs that `text` has not."""

    name: str
    content: str
    quoted: bool = False
    strip_tabs: bool = False

    @property
    def text(self) -> str:
        """What the document says."""
        return _LEADING_TABS.sub("", self.content) if self.strip_tabs else self.content


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction as written: the keyword in capitals, its flags, and everything behind them."""

    keyword: str
    flags: tuple[str, ...]
    arguments: str
    line: int
    heredocs: tuple[Heredoc, ...] = ()

    def __str__(self) -> str:
        """On one line, as logs and messages show it."""
        return " ".join([self.keyword, *self.flags, *self.arguments.split()])


@dataclass(frozen=True, slots=True)
class Dockerfile:
    """What a file says; `name` is how messages call the file."""

    name: str
    instructions: tuple[Instruction, ...]
    escape: str = ESCAPE


def parse_dockerfile(text: str, name: str = "Dockerfile") -> Dockerfile:
    """Divide a text into instructions. Raises BuildError with file and line."""
    lines = [line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n")]
    if "\0" in text:
        raise BuildError(f"{name}:{text.count(chr(10), 0, text.index(chr(0))) + 1}: expected text, found a zero byte")
    escape = _read_escape(lines, name)
    instructions = tuple(_Reader(lines, name, escape).read())
    if not instructions:
        raise BuildError(f"{name}: it has no instructions; expected at least a FROM")
    return Dockerfile(name, instructions, escape)


def _read_escape(lines: list[str], name: str) -> str:
    """The escape character. Directives stand before everything else, other comments included."""
    seen: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        found = _DIRECTIVE.fullmatch(line.strip())
        if not found or found[1].lower() not in _DIRECTIVES:
            break
        key = found[1].lower()
        if key in seen:
            raise BuildError(f"{name}:{number}: a second `# {key}=` directive; only one is allowed")
        if key == "escape" and found[2] not in ("\\", "`"):
            raise BuildError(f"{name}:{number}: `# escape=` takes a backslash or a backtick, not {found[2]!r}")
        seen[key] = found[2]
    return seen.get("escape", ESCAPE)


class _Reader:
    """Goes through the lines once."""

    def __init__(self, lines: list[str], name: str, escape: str) -> None:
        self._lines = lines
        self._name = name
        self._escape = escape
        self._position = 0
        mark = re.escape(escape)
        self._continued = re.compile(rf"(?:(?<=[^{mark}])|^){mark}[ \t]*$")

    def read(self) -> Iterator[Instruction]:
        """Every instruction in order."""
        while self._position < len(self._lines):
            start = self._position + 1
            text = self._joined()
            try:
                if text.strip():
                    yield self._with_heredocs(_divide(text.strip(), start))
            except WordError as error:
                raise BuildError(f"{self._name}:{start}: {error}") from None

    def _next(self) -> str:
        line = self._lines[self._position]
        self._position += 1
        return line

    def _joined(self) -> str:
        """One line with those that continue it; comments and empty lines in between vanish."""
        line = self._next().lstrip()
        if line.startswith("#"):
            return ""
        joined, more = self._cut(line)
        while more and self._position < len(self._lines):
            line = self._next()
            if line.strip() and not line.lstrip().startswith("#"):
                line, more = self._cut(line)
                joined += line
        return joined

    def _cut(self, line: str) -> tuple[str, bool]:
        cut = self._continued.sub("", line)
        return cut, cut != line

    def _with_heredocs(self, instruction: Instruction) -> Instruction:
        keyword, text = instruction.keyword, instruction.arguments
        if keyword == "ONBUILD":
            keyword = text.split(None, 1)[0].upper() if text else ""
        if keyword not in _WITH_HEREDOCS or "<<" not in text or parse_list(text) is not None:
            return instruction
        if not quotes_match(text, self._escape):
            return instruction
        words = _with_names(split_raw(text, self._escape), self._lines[self._position :], keyword)
        opened = [opened for word in words if (opened := parse_opening(word, self._escape))]
        return replace(instruction, heredocs=tuple(self._fill(heredoc, instruction.line) for heredoc in opened))

    def _fill(self, heredoc: Heredoc, line: int) -> Heredoc:
        content = ""
        while self._position < len(self._lines):
            text = self._next()
            if (text.lstrip("\t") if heredoc.strip_tabs else text) == heredoc.name:
                return replace(heredoc, content=content)
            content += f"{text}\n"
        raise BuildError(f"{self._name}:{line}: the here-document is not ended by a line with {heredoc.name!r}")


def _with_names(words: list[str], following: list[str], keyword: str) -> list[str]:
    """The words with the name of a here-document joined to a `<<` that stands alone, as a shell reads it.

    `$((1 << 3))` looks the same, so there must be a line with nothing but that name.
    """
    if keyword != "RUN":
        return words
    joined: list[str] = []
    for word in words:
        bare = joined[-1] if joined and _BARE_HEREDOC.fullmatch(joined[-1]) else None
        if bare and _NAME.fullmatch(word) and any(line.lstrip("\t") == word.strip("'\"") for line in following):
            joined[-1] = bare + word
        else:
            joined.append(word)
    return joined


def parse_opening(word: str, escape: str = ESCAPE) -> Heredoc | None:
    """The here-document that a word such as `<<EOF` opens, still without its content; None if it opens none."""
    found = _HEREDOC.fullmatch(word)
    if found is None or not quotes_match(found[2], escape):
        return None
    name = unquote(found[2], escape)
    return Heredoc(name, "", quoted=name != found[2], strip_tabs=bool(found[1])) if name else None


def _divide(text: str, line: int) -> Instruction:
    """Take the keyword and the flags off the front."""
    keyword, _, rest = _FIRST_SPACE.sub("\0", text, count=1).partition("\0")
    flags = []
    while (found := _FLAG.match(rest)) is not None:
        rest = rest[found.end() :]
        if found[0].strip() == "--":
            break
        flags.append(unquote(found[0].strip()))
    return Instruction(keyword.upper(), tuple(flags), rest.strip(), line)
