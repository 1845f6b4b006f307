"""What a shell command needs to be there before it can start, as far as that can be told without running it.

Only what is certain is told: a line whose first program may be missing without harm names nothing.
"""

import re
import shlex
from dataclasses import dataclass

_PLAIN = re.compile(r"[A-Za-z0-9_./+@%:-]+")
_SCRIPT = re.compile(r"[A-Za-z0-9_./+@%:-]+\.(?:py|sh|bash|js|mjs|cjs|rb|pl)")
_OPERATOR = re.compile(r"[();<>|&]+")
# After any other operator the line goes on even if its first program is missing.
_HARMLESS = frozenset({"&&", "<", ">", ">>", "<&", ">&", "&>", "&>>", ">|", "<>"})
# Interpreters by name, with the options that may stand before a script and take no value.
_INTERPRETERS: tuple[tuple[re.Pattern[str], frozenset[str]], ...] = (
    (re.compile(r"(?:python|pypy)[0-9.]*"), frozenset({"-u", "-B", "-E", "-I", "-O", "-OO", "-s", "-S"})),
    (re.compile(r"(?:ba|da|z|k)?sh"), frozenset({"-e", "-u", "-x", "-eu", "-ex", "-eux"})),
    (re.compile(r"node|ruby|perl"), frozenset()),
)


@dataclass(frozen=True, slots=True)
class Needed:
    """The first program of a command line, and the script that it is given."""

    program: str
    script: str | None = None


def needed_by(argv: tuple[str, ...]) -> Needed | None:
    """What a command cannot start without; None where that cannot be told."""
    if len(argv) == 3 and argv[:2] == ("/bin/sh", "-c"):
        return _needed_by_line(argv[2])
    return _needed(list(argv))


def _needed_by_line(line: str) -> Needed | None:
    if "\n" in line.strip():
        return None
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:
        return None
    if any(_OPERATOR.fullmatch(word) and word not in _HARMLESS for word in words):
        return None
    first = next((index for index, word in enumerate(words) if word == "&&"), len(words))
    return _needed(words[:first])


def _needed(words: list[str]) -> Needed | None:
    if not words or not _PLAIN.fullmatch(words[0]):
        return None
    return Needed(words[0], _script(words))


def _script(words: list[str]) -> str | None:
    name = words[0].rpartition("/")[2]
    flags = next((flags for names, flags in _INTERPRETERS if names.fullmatch(name)), None)
    if flags is None:
        return None
    script = next((word for word in words[1:] if word not in flags), "")
    return script if _SCRIPT.fullmatch(script) else None
