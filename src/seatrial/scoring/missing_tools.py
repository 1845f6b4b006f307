"""Did a verifier lack a tool of its own? Recognises what shells and interpreters say then, and nothing else.

A test script that goes on after `pytest: command not found` writes a 0 that says nothing about the agent. Messages
count only where they come from the test script or its interpreter: an agent's program may print anything, and a tool
that the instruction names may be the one that the agent was to provide. What is found informs and changes no reward.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

_RUNNERS = frozenset({"pytest", "uv", "uvx"})
"""Tools that are the verifier's own whoever reports them missing, and whatever the instruction says."""

_COMMON = frozenset(
    """
    apt-get awk bash bc bun bzip2 cargo cmake cmp curl deno diff docker file find g++ gcc git go grep gzip java javac
    jq make mvn nc netcat ninja node nohup npm npx openssl perl pgrep php pip pip3 pnpm poetry ps psql python python3
    redis-cli rg ruby rustc sed sqlite3 ss ssh sudo tar timeout tree unzip wget xmllint xxd yarn yq zip
    """.split()  # noqa: SIM905 - words read better as text
)
_MODULES = _RUNNERS | {"pip", "unittest", "nose2", "tox", "coverage"}
_MOST_TOOLS = 5
_LONGEST_LINE = 1000
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}"
_OPEN, _CLOSE = "['\"\N{LEFT SINGLE QUOTATION MARK}]?", "['\"\N{RIGHT SINGLE QUOTATION MARK}]?"
_PLACE = r"(?:line )?\d+: "
_SHELL = rf"(?:/\S*/)?(?:ba|da|a)?sh: (?:{_PLACE})?"
_IN_BIN = re.compile(rf"(?:/\S*)?/s?bin/({_NAME})")


class _Told(NamedTuple):
    """What is known beside a message: the text of the test script, and what the agent was told."""

    script: str
    instruction: str

    @property
    def interpreter(self) -> str | None:
        """By what the first line of the script has it run."""
        first = self.script.partition("\n")[0]
        names = [PurePosixPath(word).name for word in first[2:].split()] if first.startswith("#!") else []
        if names[:1] == ["env"]:
            names = [name for name in names[1:] if not name.startswith("-")]
        return names[0] if names else None


def missing_tools(printed: Sequence[bytes], script: str, instruction: str) -> tuple[str, ...]:
    """The tools that a verifier could not find, by the ends of what it printed; the first few, each once.

    `script` is the text of the test script, `instruction` what the agent was told.
    """
    told = _Told(script, instruction)
    lines = (line.strip() for data in printed for line in data.decode(errors="replace").splitlines())
    found = dict.fromkeys(tool for line in lines if len(line) < _LONGEST_LINE for tool in _named_in(line, told))
    return tuple(found)[:_MOST_TOOLS]


def _named_in(line: str, told: _Told) -> Iterator[str]:
    for pattern, name in _MESSAGES:
        if match := pattern.fullmatch(line):
            if tool := name(match, told):
                yield tool
            return


def _of_the_script(match: re.Match[str], told: _Told) -> str | None:
    tool = _command(match[1], match[2])
    if tool in _RUNNERS:
        return tool
    # Of any other name, nobody can tell whether it is what the agent was to provide.
    return tool if tool in _COMMON and not _mentions(told.instruction, tool) else None


def _command(word: str, reason: str) -> str | None:
    """The tool that a shell did not find; None for a file that may be anything, such as the agent's answer."""
    if match := _IN_BIN.fullmatch(word):
        return match[1] if match[1] != "env" else None  # installers leave a file `env` beside their programs
    # Of a plain word, "No such file" is said when it is read from, not when it is run.
    return word if re.fullmatch(_NAME, word) and not reason.startswith("No such file") else None


def _of_any_shell(match: re.Match[str], _: _Told) -> str | None:
    return match[1] if match[1] in _RUNNERS else None


def _of_python(match: re.Match[str], _: _Told) -> str | None:
    module = match[1].partition(".")[0]
    return module if module in _MODULES else None


def _of_env(match: re.Match[str], told: _Told) -> str | None:
    # Said of an agent's script too; the test script has that interpreter in its first line.
    return match[1] if match[1] == told.interpreter else None


def _of_a_bad_interpreter(match: re.Match[str], _: _Told) -> str | None:
    return PurePosixPath(match[1]).name


def _of_no_interpreter(_: re.Match[str], told: _Told) -> str | None:
    return told.interpreter


def _of_exec(match: re.Match[str], told: _Told) -> str | None:
    return match[1] if _mentions(told.script, match[1]) else None


def _mentions(text: str, tool: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(tool)}(?![\w-])", text) is not None


_MESSAGES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], _Told], str | None]], ...] = tuple(
    (re.compile(pattern), name)
    for pattern, name in (
        (rf"/tests/\S+?: {_PLACE}(?:exec: )?(\S+): (command not found|not found|No such file.*)", _of_the_script),
        (rf"(?:{_SHELL})?({_NAME}): (?:command )?not found", _of_any_shell),
        (rf"(?:(?:/\S*/)?python[\d.]*: |\w+Error: )?No module named '?({_NAME})'?", _of_python),
        (rf"(?:/\S*/)?env: (?:can't execute )?{_OPEN}({_NAME}){_CLOSE}: No such file or directory", _of_env),
        (rf"(?:{_SHELL})?/tests/\S+: (?:{_PLACE})?(/\S+): bad interpreter: .*", _of_a_bad_interpreter),
        (
            rf"{_SHELL}/tests/test\.sh: (?:not found|No such file or directory|.*required file not found)",
            _of_no_interpreter,
        ),
        (rf'(?:.*: )?exec: "(?:/\S*/)?({_NAME})": executable file not found in \$PATH.*', _of_exec),
    )
)
