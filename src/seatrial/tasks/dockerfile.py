"""The text of a Dockerfile as instructions: words and their variables, joined lines, flags and here-documents.

Each instruction knows the line it starts on. What they mean is up to `images`, which builds with them.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Literal

from seatrial.errors import BuildError

# Words: where one ends, which quotes go, and what `$NAME` and `${NAME:-…}` stand for. The rules are those of Docker's
# builder, close to a shell's and not the same: unknown variables are empty, and nothing but variables is expanded.

ESCAPE = "\\"
_SPECIAL = frozenset("@*#?-$!0")
_MAX_DEPTH = 50
_MAX_MATCHED = 4096
_PATTERN_PART = re.compile(r"\\(.)|(\[)", re.DOTALL)
# JSON can spell half of a letter; no program can be given one.
_HALF_LETTER = re.compile("[\ud800-\udfff]")


OR_DOCKER = "or have Docker build it, and bring it here: `docker save NAME | seatrial images load -`"
"""What to do about a file that is beyond us."""


class WordError(ValueError):
    """A word that cannot be read; the message says why, without file and line."""


def split_raw(text: str, escape: str = ESCAPE) -> list[str]:
    """The words of a line with their quotes and escapes still on; whitespace within quotes divides nothing."""
    return _split(text, escape)[0]


def quotes_match(text: str, escape: str = ESCAPE) -> bool:
    """Whether every quote that a line opens is closed in it."""
    return _split(text, escape)[1]


def _split(text: str, escape: str) -> tuple[list[str], bool]:
    words: list[str] = []
    word, quote, started, position = "", "", False, 0
    while position < len(text):
        letter = text[position]
        step = 1
        if letter == escape and quote != "'":
            letter, step = text[position : position + 2], 2
            if len(letter) == 1:  # at the very end it escapes nothing and is nothing
                break
        elif quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        position += step
        if letter.isspace() and not quote and step == 1:
            words += [word] if started else []
            word, started = "", False
        else:
            word, started = word + letter, True
    return words + ([word] if started else []), not quote


def parse_list(text: str) -> tuple[str, ...] | None:
    """The words of a JSON list, the exec form; None for whatever is not JSON, which is the shell form then.

    Raises WordError for a list of anything but strings.
    """
    if not text.lstrip().startswith("["):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not all(isinstance(word, str) for word in found):
        raise WordError("a JSON list may have strings only, in double quotes")
    if any("\0" in word for word in found):
        raise WordError("a JSON list may not have the letter \\u0000")
    return tuple(_HALF_LETTER.sub("\ufffd", word) for word in found)


def expand(
    text: str,
    variables: Mapping[str, str],
    *,
    escape: str = ESCAPE,
    quotes: Literal["remove", "keep"] = "remove",
) -> str:
    """A word with its variables replaced, its escapes resolved and its quotes removed. Raises WordError."""
    return _Expansion(text, variables, escape, quotes).until("")


def unquote(text: str, escape: str = ESCAPE) -> str:
    """A word with its quotes removed and its variables left for later. Raises WordError."""
    return _Expansion(text, None, escape, "remove").until("")


class _Expansion:
    """One pass over a text."""

    def __init__(
        self, text: str, variables: Mapping[str, str] | None, escape: str, quotes: Literal["remove", "keep"]
    ) -> None:
        self._text = text
        self._literal = variables is None
        self._variables = variables or {}
        self._escape = escape
        self._quotes = quotes
        self._position = 0
        self._depth = 0

    def _peek(self) -> str:
        return self._text[self._position : self._position + 1]

    def _next(self) -> str:
        letter = self._peek()
        self._position += 1
        return letter

    def until(self, end: str, escapes: Literal["resolve", "keep"] = "resolve") -> str:
        """What comes before the letter `end`, which is consumed; all of it when `end` is empty."""
        found = ""
        while letter := self._next():
            if letter == end:
                return found
            if letter == "$":
                found += self._variable()
            elif letter in ("'", '"') and self._quotes == "remove":
                found += self._single_quoted() if letter == "'" else self._double_quoted()
            elif letter == self._escape:
                found += (letter if escapes == "keep" else "") + self._next()
            else:
                found += letter
        if end:
            raise WordError(f"a '{end}' is missing at the end of {self._text!r}")
        return found

    def _single_quoted(self) -> str:
        end = self._text.find("'", self._position)
        if end < 0:
            raise WordError(f"a single quote is not closed in {self._text!r}")
        content, self._position = self._text[self._position : end], end + 1
        return content

    def _double_quoted(self) -> str:
        found = ""
        while letter := self._next():
            if letter == '"':
                return found
            if letter == "$":
                found += self._variable()
            elif letter == self._escape and self._peek() in ('"', "$", self._escape):
                found += self._next()
            else:
                found += letter
        raise WordError(f"a double quote is not closed in {self._text!r}")

    def _variable(self) -> str:
        if self._literal:
            return "$"
        if self._peek() != "{":
            name = self._name()
            return self._variables.get(name, "") if name else "$"
        self._next()
        if self._peek() in ("", "{", "}", ":"):
            raise WordError(f"'${{' is not followed by a name in {self._text!r}")
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise WordError(f"variables are nested more than {_MAX_DEPTH} deep")
        value = self._braced(self._name())
        self._depth -= 1
        return value

    def _name(self) -> str:
        start = self._position
        if self._peek() in _SPECIAL:
            return self._next()
        belongs: Callable[[str], bool] = str.isdigit if self._peek().isdigit() else _is_name_letter
        while self._peek() and belongs(self._peek()):
            self._position += 1
        return self._text[start : self._position]

    def _braced(self, name: str) -> str:
        value = self._variables.get(name)
        modifier = self._next()
        if not modifier:
            raise WordError(f"a '}}' is missing at the end of {self._text!r}")
        if modifier == "}":
            return value or ""
        if modifier == "/":
            return self._replaced(value or "")
        if modifier in ("#", "%"):
            return _trimmed(value or "", self.until("}", "keep"), modifier)
        counts = value is not None
        if modifier == ":":
            modifier, counts = self._next(), bool(value)
        return self._chosen(name, modifier, value if counts else None)

    def _chosen(self, name: str, modifier: str, value: str | None) -> str:
        """`${X-y}`, `${X+y}` and `${X?y}`; a value that does not count is None."""
        if modifier not in ("-", "+", "?"):
            raise WordError(f"'{modifier}' after the name in '${{{name}' means nothing; known are :- :+ :? # % /")
        other = self.until("}")
        if modifier == "+":
            return "" if value is None else other
        if modifier == "?" and value is None:
            raise WordError(f"{name}: {other or 'it must be set and is not'}")
        return other if value is None else value

    def _replaced(self, value: str) -> str:
        everywhere = self._peek() == "/"
        if everywhere:
            self._next()
        pattern, replacement = _as_glob(self.until("/", "keep")), self.until("}", "keep")
        _check_length(value)
        found, position = "", 0
        while position < len(value):
            ends = range(len(value), position, -1)
            end = next((end for end in ends if fnmatchcase(value[position:end], pattern)), None)
            if end is None:
                found, position = found + value[position], position + 1
                continue
            found, position = found + replacement, end
            if not everywhere:
                break
        return found + value[position:]


def _is_name_letter(letter: str) -> bool:
    return letter.isalpha() or letter.isdigit() or letter == "_"


def _trimmed(value: str, pattern: str, side: str) -> str:
    """`${X#p}` and `${X%p}` take the shortest match off one end, `##` and `%%` the longest."""
    longest = pattern.startswith(side)
    glob = _as_glob(pattern.removeprefix(side))
    _check_length(value)
    lengths = range(len(value), -1, -1) if longest else range(len(value) + 1)
    for length in lengths:
        if side == "#" and fnmatchcase(value[:length], glob):
            return value[length:]
        if side == "%" and fnmatchcase(value[len(value) - length :], glob):
            return value[: len(value) - length]
    return value


def _as_glob(pattern: str) -> str:
    """A shell pattern as fnmatch has it: brackets mean themselves, and an escaped letter means itself."""
    return _PATTERN_PART.sub(
        lambda part: f"[{part[1]}]" if (part[1] or "") in ("*", "?") else part[1] or "[[]", pattern
    )


def _check_length(value: str) -> None:
    if len(value) > _MAX_MATCHED:
        raise WordError(f"patterns are matched against values of at most {_MAX_MATCHED} letters, not {len(value):,}")


# Instructions: directives, lines that continue others, here-documents.

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


# Flags (`--from=…`): which ones an instruction may have, and what their values may be.

Kind = Literal["one", "many", "yes"]

FLAGS: dict[str, dict[str, Kind]] = {
    "FROM": {"platform": "one"},
    "RUN": {"mount": "many", "network": "one"},
    "COPY": {"from": "one", "chown": "one", "chmod": "one", "exclude": "many", "link": "yes"},
    "ADD": {"chown": "one", "chmod": "one", "exclude": "many", "link": "yes"},
    "HEALTHCHECK": dict.fromkeys(("interval", "timeout", "start-period", "start-interval", "retries"), "one"),
}
"""For each instruction that has any: a flag takes one value, may be given many times, or only says yes."""

_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")
_NANOSECONDS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags an instruction was given."""

    single: Mapping[str, str] = field(default_factory=dict)
    repeated: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def one(self, name: str) -> str | None:
        """The value of a flag, None when it was not given."""
        return self.single.get(name)

    def all(self, name: str) -> tuple[str, ...]:
        """The values of a flag that may be repeated."""
        return self.repeated.get(name, ())

    def network(self) -> Literal["default", "none"]:
        """What `RUN --network` says. Raises WordError: whether to use the host's is not for a Dockerfile to say."""
        value = self.single.get("network", "default")
        if value not in ("default", "none"):
            raise WordError(f"--network takes default or none, not {value!r}")
        return "none" if value == "none" else "default"

    def cache_mounts(self) -> tuple[str, ...]:
        """Where `RUN --mount` wants directories that are empty before and gone after. Raises WordError."""
        return tuple(_cache_target(mount) for mount in self.all("mount"))


def read_flags(words: Sequence[str], known: Mapping[str, Kind]) -> Flags:
    """The flags of an instruction that knows these. Raises WordError."""
    single: dict[str, str] = {}
    repeated: dict[str, tuple[str, ...]] = {}
    for word in words:
        name, equals, value = word.removeprefix("--").partition("=")
        kind = known.get(name)
        if kind is None:
            have = f"known are {', '.join(f'--{flag}' for flag in known)}" if known else "it takes none"
            raise WordError(f"unsupported flag --{name}; {have}; {OR_DOCKER}")
        if kind != "yes" and not equals:
            raise WordError(f"--{name} needs a value: --{name}=…")
        if name in single:
            raise WordError(f"--{name} is given twice")
        if kind == "many":
            repeated[name] = (*repeated.get(name, ()), value)
        else:
            single[name] = value
    return Flags(single, repeated)


def _cache_target(mount: str) -> str:
    options = dict(part.partition("=")[::2] for part in mount.split(","))
    target = options.get("target") or options.get("dst") or options.get("destination")
    if options.get("type") not in ("cache", "tmpfs") or "from" in options or not target or not target.strip("/."):
        raise WordError(
            f"unsupported --mount={mount}; only type=cache and type=tmpfs with a target are; both start empty"
        )
    return target


def parse_duration(text: str) -> int:
    """Nanoseconds in a text such as `1m30s`. Raises WordError."""
    parts = list(_DURATION.finditer(text))
    if not parts or "".join(part[0] for part in parts) != text:
        raise WordError(f"{text!r} is no duration; expected something like 30s or 1m30s")
    return int(sum(float(part[1]) * _NANOSECONDS[part[2]] for part in parts))
