"""What a shell command takes for granted: files of this machine that its sandbox lacks, and programs to start with.

Reads names only, and guesses nothing: only what is certain is told.
"""

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import dropwhile

from seatrial.errors import JobError
from seatrial.model.job import AGENT_FILES_DIR, AgentFiles, AgentOptions

_INTERPRETER = re.compile(r"(python[0-9.]*|bash|sh|dash|zsh|node|deno|bun|ruby|perl|php|Rscript)")
_SEPARATORS = frozenset({"&&", "||", ";", "|", "&", "(", ")"})
_WRAPPERS = frozenset({"env", "exec", "nice", "nohup", "poetry", "run", "sudo", "time", "timeout", "uv"})
_LEAD_IN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=|-|\d+[smhd]?$")


def check_command(agent: AgentOptions) -> None:
    """Raise JobError for a command that runs a script of this machine which the sandbox will not have, and say how."""
    if agent.command is None:
        return
    for script in scripts_in(agent.command):
        if os.path.isfile(script) and _is_ours(script):  # noqa: PTH113 - paths stay as they were written in the command
            raise JobError(_way_out(agent, script))


def scripts_in(command: str) -> list[str]:
    """The programs that a command starts, and the scripts it has interpreters run, as they are written."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:  # the shell will say what is wrong with it
        return []
    return [script for simple in _split(words) for script in _scripts_of(simple)]


def _split(words: Sequence[str]) -> Iterator[list[str]]:
    simple: list[str] = []
    for word in words:
        if word in _SEPARATORS:
            yield simple
            simple = []
        else:
            simple.append(word)
    yield simple


def _scripts_of(words: Sequence[str]) -> Iterator[str]:
    words = list(dropwhile(_leads_in, words))
    if not words:
        return
    yield words[0]
    if not _INTERPRETER.fullmatch(words[0].rpartition("/")[2]):
        return
    for word in words[1:]:
        if word in ("-c", "-m", "-e"):
            return
        if not word.startswith("-"):
            yield word
            return


def _leads_in(word: str) -> bool:
    """Whether a word only stands before the program that is run: `exec`, `timeout 60`, `uv run`, a variable."""
    return word in _WRAPPERS or _LEAD_IN.match(word) is not None


def _is_ours(script: str) -> bool:
    """Whether a name means a file of this machine: a path from here, or a whole one to something below here."""
    if not script.startswith("/"):
        return "/" in script or "." in script
    return script.startswith(f"{os.getcwd()}/")  # noqa: PTH109 - as above


def _way_out(agent: AgentOptions, script: str) -> str:
    inside = _inside(script, agent.files)
    here, _, name = os.path.normpath(script).rpartition("/")
    source = script if script.startswith("/") else here or name
    bring = "" if inside else f"add --agent-files {shlex.quote(source)} and "
    rewritten = (agent.command or "").replace(script, inside or f"{AGENT_FILES_DIR}/{name}")
    return (
        f"{script} is on this machine, not in the sandbox; {bring}write --command {shlex.quote(rewritten)}. "
        "If a file of the sandbox is meant, write its whole path"
    )


def _inside(script: str, files: Sequence[AgentFiles]) -> str | None:
    """Where a file of this machine lies in the sandbox, None where it does not."""
    path = os.path.abspath(script)  # noqa: PTH100 - links stay as they were named
    for each in files:
        source = os.path.abspath(each.source)  # noqa: PTH100 - links stay as they were named
        if path == source:
            return f"{each.target}/{os.path.basename(source)}"  # noqa: PTH119 - as above
        if path.startswith(f"{source}/"):
            return f"{each.target}/{path[len(source) + 1 :]}"
    return None


# What a command needs to be there before it can start. A line whose first program may be missing without harm names
# nothing.

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
