"""What an agent did in each of its turns: executing, verifying, deliberating or exploring, told by its calls alone.

`verification` looks back: it tests, compares, reads again what was written. `exploration` finds out what there is.
`deliberation` plans without doing. `execution` is the obvious next step. Of several actions in one turn the most
frequent kind counts, and of equally frequent ones the first in this order: verification, exploration, deliberation,
execution. No model is asked, so the same calls always give the same behaviours; where the calls say little, the
confidence is low.
"""

import posixpath
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Literal, NamedTuple, get_args

from seatrial.messages import AnyItem, Message, Reasoning, Refusal, ToolCall
from seatrial.trajectories.first_failure import subject_of
from seatrial.trajectories.reading import is_answered, read_messages
from seatrial.trajectories.threads import Thread, ThreadCall

Behaviour = Literal["verification", "exploration", "deliberation", "execution"]
BEHAVIOURS: tuple[Behaviour, ...] = get_args(Behaviour)
"""Of several that fit a turn equally well, the first counts."""

RULES = "1"
"""The version of the rules below; behaviours by others are not comparable."""

LOW = 0.75
"""Below this confidence a behaviour is shown as uncertain."""

_NAMED, _KNOWN, _LIKELY, _UNKNOWN, _WORDS, _NOTHING = 0.95, 0.9, 0.8, 0.6, 0.6, 0.5
_LONGEST = 4_000
_MOST_CALLS, _MOST_COMMANDS = 100, 50  # of one turn, of one call
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class AgentTurn:
    """A turn: what the agent heard since the last one, what it answered, and which behaviour that is."""

    thread: str
    call: int
    heard: tuple[AnyItem, ...]
    said: tuple[AnyItem, ...]
    behaviour: Behaviour
    confidence: float
    rationale: str


def turns_of(threads: Sequence[Thread]) -> list[AgentTurn]:
    """The turns of all threads, thread by thread; titles, summaries, warm-up calls and repeated calls are left out."""
    return [
        turn for thread in threads if thread.kind in ("main", "sub-agent") or _works(thread) for turn in _of(thread)
    ]


def _works(thread: Thread) -> bool:
    return thread.kind == "branch" and thread.has_tools


def _of(thread: Thread) -> Iterator[AgentTurn]:
    written: set[str] = set()
    heard: list[AnyItem] = []
    for each in thread.calls:
        heard += read_messages(each.new)
        if each.taken and is_answered(each.call) and each.answer and not _is_warm_up(each):
            found = _decided([*_acts(each.answer, written)], each.answer)
            yield AgentTurn(thread.name, each.call.index, tuple(heard), each.answer, *found)
            heard = []


def _is_warm_up(each: ThreadCall) -> bool:
    """Whether a call only warms a cache or asks whether there is quota: it may answer with one token."""
    config = each.request.get("generationConfig")
    limits = [each.request.get(name) for name in ("max_tokens", "max_completion_tokens", "max_output_tokens")]
    limits.append(config.get("maxOutputTokens") if isinstance(config, dict) else None)
    return any(type(limit) is int and limit <= 1 for limit in limits)


class _Act(NamedTuple):
    """One action, how sure its behaviour is, and the action in words."""

    behaviour: Behaviour
    confidence: float
    words: str


def _decided(acts: Sequence[_Act], answer: Sequence[AnyItem]) -> tuple[Behaviour, float, str]:
    if not acts:
        return _by_words(answer)
    counts = Counter(act.behaviour for act in acts)
    chosen = max(BEHAVIOURS, key=lambda each: counts[each])
    agreeing = [act for act in acts if act.behaviour == chosen]
    sure = max(act.confidence for act in agreeing) * len(agreeing) / len(acts)
    words = ", ".join(dict.fromkeys(act.words for act in agreeing[:3]))
    among = "" if len(agreeing) == len(acts) else f" ({len(agreeing)} of {len(acts)} actions)"
    return chosen, round(sure, 4), f"{words}{among}"


def _acts(answer: Sequence[AnyItem], written: set[str]) -> Iterator[_Act]:
    called = [item for item in answer if isinstance(item, ToolCall)]
    for call in called[:_MOST_CALLS]:
        yield from _of_call(call, written)
    if not called:
        for item in answer:
            for command in _FENCED.findall(item.text[:_LONGEST]) if isinstance(item, Message) else ():
                yield from _of_command(command, written)


# Tools, by their names. A shell is told by its command.

_FENCED = re.compile(r"```(?:bash|sh|shell|console)\n(.*?)```", re.DOTALL)
_NAME_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_TOOLS: Sequence[tuple[str, Behaviour, str]] = (
    ("think thinking plan planning todo todos reflect reason", "deliberation", "plans with"),
    ("test tests verify validate check lint diff compare", "verification", "checks with"),
    ("ask clarify question", "exploration", "asks with"),
    ("write edit create replace insert patch delete remove move save update", "execution", "writes"),
    ("read view open cat grep glob search find ls list fetch show query", "exploration", "reads"),
)
_EDITORS: Mapping[str, str] = {"view": "view", "create": "create", "str_replace": "replace", "insert": "insert"}
"""What editors of several commands are told to do, as the name of a tool."""

_COMMAND_KEYS = ("command", "cmd", "script", "commands", "keystrokes")


def _of_call(call: ToolCall, written: set[str]) -> Iterator[_Act]:
    table = call.table or {}
    command = next((table[name] for name in _COMMAND_KEYS if table.get(name)), None)
    if isinstance(command, list):
        words = [each for each in command if isinstance(each, str)]
        yield from _of_simple(words, written) or _unknown(words)
    elif isinstance(command, str) and command not in _EDITORS:
        yield from _of_command(command, written)
    else:
        yield _by_name(call, _EDITORS.get(command or ""), written)


def _by_name(call: ToolCall, name: str | None, written: set[str]) -> _Act:
    """A tool that is told by its name, or an editor by what it is told to do."""
    words = {word.lower() for word in _NAME_WORDS.findall(name or call.name[:200])}
    path = subject_of(call) if call.table else ""
    behaviour, does = next(
        ((each, does) for names, each, does in _TOOLS if words & {*names.split()}), ("execution", "")
    )
    if not does:
        return _Act("execution", _UNKNOWN, f"calls {_short(call.name)}")
    if does == "reads" and path in written:
        return _Act("verification", _LIKELY, f"reads {_short(path)} again, which it wrote")
    if does == "writes" and path:
        written.add(path)
    return _Act(behaviour, _NAMED, f"{does} {_short(path or call.name)}")


# Commands of a shell, by their programs.

_VERIFYING = (
    "pytest py.test tox nox unittest doctest mypy pyright ruff flake8 pylint black eslint tsc jest vitest mocha ctest "
    "rspec phpunit shellcheck valgrind diff cmp colordiff sha1sum sha256sum md5sum cksum test [ [[ jsonschema yamllint "
    "xmllint bats"
)
_EXPLORING = (
    "ls cat head tail less more find fd grep egrep rg ag ack tree pwd which whereis type file stat wc du df ps env "
    "printenv uname id whoami hostname nproc free lscpu strings hexdump xxd od nm objdump readelf ldd man help info "
    "curl wget jq yq sqlite3 psql nl locate readlink realpath top lsof netstat ss dig history date"
)
_EXECUTING = (
    "tee touch mkdir rmdir rm mv cp ln chmod chown patch apply_patch install dd truncate apt apt-get yum dnf apk brew "
    "pip pip3 conda npm yarn pnpm gcc g++ cc clang cmake make ninja cargo go git tar unzip zip gzip kill"
)
_PROGRAMS: Mapping[str, Behaviour] = {
    **dict.fromkeys(_VERIFYING.split(), "verification"),
    **dict.fromkeys(_EXPLORING.split(), "exploration"),
    **dict.fromkeys(_EXECUTING.split(), "execution"),
}
_VERIFYING_PARTS: Mapping[str, str] = {
    "bazel": "test",
    "cargo": "test check clippy bench",
    "dotnet": "test",
    "git": "diff status",
    "go": "test vet",
    "gradle": "test check",
    "make": "test tests check lint verify",
    "mvn": "test verify",
    "npm": "test t lint check typecheck",
    "pip": "check",
    "pnpm": "test lint check typecheck",
    "yarn": "test lint check typecheck",
}
_EXPLORING_PARTS: Mapping[str, str] = {
    "apt": "list show search policy",
    "cargo": "tree metadata search",
    "git": "log show blame branch ls-files grep remote rev-parse describe",
    "go": "list env doc version",
    "npm": "ls list view",
    "pip": "list show freeze index",
    "pip3": "list show freeze index",
}
_SHELLS = frozenset({"sh", "bash", "dash", "zsh"})
_PYTHONS = re.compile(r"python[\d.]*|pypy\d?")
_SILENT = frozenset({"cd", "set", "export", "source", ".", "echo", "printf", "true", ":", "sleep", "pushd", "popd"})
_SILENT_WORDS = frozenset({"if", "then", "else", "fi", "for", "do", "done", "while", "case", "esac", "{", "}", "exit"})
_WRAPPERS = frozenset(
    {"env", "exec", "nohup", "sudo", "time", "timeout", "xargs", "uv", "poetry", "npx", "run", "nice"}
)
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w{1,40})\1([^\n]*)\n.*?(?:\n[ \t]*\2\b|\Z)", re.DOTALL)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_STREAM_EDITORS = frozenset({"awk", "perl", "sed"})
_READERS = frozenset({"cat", "head", "less", "tail"})
_AMOUNT = re.compile(r"-|\d+(?:\.\d+)?[smhd]?$")


def _of_command(command: str, written: set[str], depth: int = 0) -> Iterator[_Act]:
    """The actions of a command line; of one without any, that it runs."""
    acts = []
    for words in islice(_simple_commands(command), _MOST_COMMANDS):
        acts += _of_simple(words, written, depth)
    yield from acts or _unknown(command.split()[:1])


def _unknown(words: Sequence[str]) -> list[_Act]:
    return [_Act("execution", _UNKNOWN, f"runs {_short(words[0])}" if words else "runs a command")]


def _simple_commands(command: str) -> Iterator[list[str]]:
    """The words of each simple command; its redirections are among them."""
    text = _HEREDOC.sub(r"\3\n", command[:_LONGEST])
    try:
        lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|<>()\n")
        lexer.whitespace, lexer.commenters, lexer.whitespace_split = " \t\r", "", True
        words = list(lexer)
    except ValueError:  # quotes without an end
        words = text.replace("\n", " ; ").split()
    part: list[str] = []
    for word in [*words, ";"]:
        if word and not word.strip(";&|()\n"):
            if part:
                yield part
            part = []
        else:
            part.append(word)


def _of_simple(words: Sequence[str], written: set[str], depth: int = 0) -> list[_Act]:
    """The action of one simple command; none of one that does nothing by itself."""
    left = list(words)
    while left and (_ASSIGNMENT.match(left[0]) or left[0] in _WRAPPERS or left[0] in _SILENT_WORDS):
        wraps = left.pop(0) in _WRAPPERS
        while wraps and left and _AMOUNT.match(left[0]):
            left.pop(0)
    target = _written_to(left)
    if target:
        written.add(posixpath.normpath(target))
        return [_Act("execution", _KNOWN, f"writes {_short(target)}")]
    if not left or left[0].startswith("#") or left[0] in _SILENT:
        return []
    program, rest = posixpath.basename(left[0]), left[1:]
    if program in _SHELLS and len(rest) > 1 and rest[0].startswith("-") and "c" in rest[0] and depth < 3:
        return [*_of_command(rest[1], written, depth + 1)]
    if _PYTHONS.fullmatch(program) and len(rest) > 1 and rest[0] == "-m":
        program, rest = rest[1], rest[2:]
    return [_by_program(program, rest, written)]


def _written_to(words: Sequence[str]) -> str:
    for sign, target in pairwise(words):
        if sign in (">", ">>", ">|", "&>") and not target.startswith("/dev/"):
            return target
    return ""


def _by_program(program: str, rest: Sequence[str], written: set[str]) -> _Act:
    shown = _short(program)
    part = next((word.partition(":")[0] for word in rest if not word.startswith("-") and word != "run"), "")
    behaviour: Behaviour = _PROGRAMS.get(program, "execution")
    sure, words = _KNOWN if program in _PROGRAMS else _UNKNOWN, f"runs {shown}"
    if any(word in ("--help", "--version") for word in rest):
        behaviour, sure, words = "exploration", _KNOWN, f"asks {shown} about itself"
    elif program in _STREAM_EDITORS:
        edits = any(word.startswith(("-i", "-pi")) for word in rest)
        behaviour, sure, words = (
            ("execution" if edits else "exploration"),
            _LIKELY,
            f"{'edits' if edits else 'reads'} with {shown}",
        )
    elif program in _READERS and (again := next((word for word in rest if posixpath.normpath(word) in written), "")):
        behaviour, sure, words = "verification", _LIKELY, f"reads {_short(again)} again, which it wrote"
    elif part in _VERIFYING_PARTS.get(program, "").split():
        behaviour, sure, words = "verification", _KNOWN, f"runs {shown} {part}"
    elif part in _EXPLORING_PARTS.get(program, "").split():
        behaviour, sure, words = "exploration", _KNOWN, f"runs {shown} {part}"
    return _Act(behaviour, sure, words)


# Words alone: cues, which say little.

_CUES: tuple[tuple[Behaviour, re.Pattern[str], str], ...] = (
    (
        "verification",
        re.compile(r"(?i)\b(?:verif(?:y|ied|ies)|double[- ]check|check(?:ed|ing)?|confirm(?:ed|s)?|as expected)\b"),
        "words alone, which look back",
    ),
    (
        "exploration",
        re.compile(r"(?i)\?|\b(?:maybe|perhaps|might|alternatively|hypothes[ei]s|what if|not sure|another way)\b"),
        "words alone, which ask or suppose",
    ),
    (
        "deliberation",
        re.compile(r"(?i)\b(?:plan|first|then|next|because|therefore|approach|step \d|need to|let me think)\b"),
        "words alone, which plan or reason",
    ),
)


def _by_words(answer: Sequence[AnyItem]) -> tuple[Behaviour, float, str]:
    text = " ".join(item.text for item in answer if isinstance(item, Message))[:_LONGEST]
    if not text.strip():
        if any(isinstance(item, Reasoning) for item in answer) and not any(isinstance(i, Refusal) for i in answer):
            return "deliberation", _WORDS, "nothing but reasoning"
        return "execution", _NOTHING, "no words and no tool"
    counts = {behaviour: len(cue.findall(text)) for behaviour, cue, _ in _CUES}
    behaviour, _, words = max(_CUES, key=lambda each: counts[each[0]])
    if not counts[behaviour]:
        return "execution", _NOTHING, "words alone"
    return behaviour, _WORDS, words


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
