"""Lint of how a test script comes to its reward: does what its checks find always get there?

Two faults are looked for. Under `set -e` a check that fails ends the script before a reward is written, so that failed
agents are missing from the results instead of counting as 0. And a check whose exit status nothing reads, or whose
assertions are caught, passes whatever the agent did.
"""

import ast
import posixpath
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from seatrial.tasks.shell import Command, read_script

_REWARD = re.compile(r"\breward\.(?:json|txt)\b")


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_RUNNERS = _names("pytest py.test pytest-3 bats rspec phpunit jest vitest mocha ctest prove")
_STARTERS = _names("uv uvx poetry pipenv pdm hatch pipx npx pnpm yarn bunx coverage conda")
_BUILDERS = _names("npm pnpm yarn bun deno cargo go mvn mvnw gradle gradlew dotnet make mix swift")
_PYTHON = re.compile(r"python[\d.]*")
_PYTHON_RUNNERS = _names("pytest unittest nose2 tox")
_INTERPRETERS = re.compile(r"python[\d.]*|node|bash|sh|ruby|perl|bun|deno")
_COMPARERS = _names("diff cmp grep egrep fgrep test [ [[")
_READERS = _names(
    "cat cp mv jq head tail wc sort chmod sha256sum md5sum stat tar unzip awk sed cut tr sqlite3 xxd gunzip"
)
_FILTERS = _names("tee tail head cat sed ts awk sort")
_WITHOUT_CONTENT = _names("echo printf rm mkdir touch ls chmod chown [ [[ test cat exit export unset")
_REPORTS = re.compile(
    r"--?(?:ctrf|junit-?xml|json-report|report-log|html|output|results?|report|reporter|json|out|o)\b"
)
_EXITS = re.compile(r"\bassert\b|\bexit\(|\bSystemExit\b|^\s*exit\s|\bset -\w*e|\braise\b", re.MULTILINE)
_WRITES = re.compile(r"open\([^)]*[\"'][wax]|write_(?:text|bytes)\(|\.dump\(|to_(?:csv|json)\(|writeFile|>\s*[\"$/\w]")
_CAUGHT = frozenset({"Exception", "BaseException", "AssertionError"})


@dataclass(slots=True)
class _Shell:
    """What `set` has switched on so far, and whether a reward is there already."""

    exits: bool = False
    pipefail: bool = False
    written: bool = False

    def set(self, words: Sequence[str]) -> None:
        for flag, name in pairwise((*words, "")):
            if flag[:1] not in ("-", "+") or flag.startswith("--"):
                continue
            on = flag.startswith("-")
            if "e" in flag or (flag.endswith("o") and name == "errexit"):
                self.exits = on
            if flag.endswith("o") and name == "pipefail":
                self.pipefail = on


@dataclass(frozen=True, slots=True)
class Verifier:
    """A test script with the scripts beside it, by their relative paths."""

    path: str
    scripts: Mapping[str, str]
    output: str = ""
    """The path of what the agent is asked for."""
    commands: tuple[Command, ...] = ()

    @classmethod
    def read(cls, path: str, scripts: Mapping[str, str], output: str | None) -> "Verifier":
        return cls(path, scripts, output or "", read_script(scripts.get(path, "")))

    @property
    def text(self) -> str:
        return self.scripts.get(self.path, "")

    def script_of(self, command: Command) -> str | None:
        """The script of the tests that a command runs."""
        is_interpreted = _INTERPRETERS.fullmatch(command.program) or command.program in ("source", ".")
        words = command.arguments[1:4] if is_interpreted else command.arguments[:1]
        for word in words:
            if "/" in word or "." in word:
                name = posixpath.basename(word)
                return next((path for path in self.scripts if name and posixpath.basename(path) == name), None)
        return None

    def runner_of(self, command: Command) -> str | None:
        """What runs tests by a command, such as pytest."""
        words, program = command.arguments, command.program
        if program in _RUNNERS:
            return program
        if _PYTHON.fullmatch(program) and "-m" in words[1:4]:
            module = words[words.index("-m") + 1 :][:1]
            return module[0] if module and module[0] in _PYTHON_RUNNERS else None
        if program in _STARTERS:
            named = next((word for word in words[1:] if word in _RUNNERS), None)
            if named and not {"install", "add", "sync"} & set(words[1:3]):
                return named
        if program in _BUILDERS and {"test", "check"} & set(words[1:3]):
            return f"{program} test"
        return None

    def check_of(self, command: Command) -> str | None:
        """How a check is called whose exit status says how good the agent's work is; None for any other command."""
        runner, script = self.runner_of(command), self.script_of(command)
        if runner or script is None:
            return runner
        text = self.scripts[script]
        return posixpath.basename(script) if _EXITS.search(text) else None

    def writes_reward(self, command: Command) -> bool:
        """Whether there is a reward once a command is through."""
        if any(_REWARD.search(target) for operator, target in command.redirects if operator != "<"):
            return True
        if self.runner_of(command):
            tests = (text for path, text in self.scripts.items() if path != self.path and _is_test(path))
            return any("reward." in text and _REWARD.search(text) for text in tests)
        if command.program not in _WITHOUT_CONTENT and any(map(_REWARD.search, command.words)):
            return True
        script = self.script_of(command)
        return script is not None and script != self.path and self._names_reward(script)

    def _names_reward(self, script: str) -> bool:
        """Whether a script names a reward, or another one that it mentions does."""
        text = self.scripts[script]
        others = (other for path, other in self.scripts.items() if posixpath.basename(path).partition(".")[0] in text)
        return bool(_REWARD.search(text)) or any(map(_REWARD.search, others))


def _is_test(path: str) -> bool:
    name = posixpath.basename(path)
    return name == "conftest.py" or not name.endswith(".py") or "test" in name


def ends_early(verifier: Verifier) -> tuple[int, str] | None:
    """The line and the name of the first check that, under `set -e`, ends the script before it writes a reward."""
    shell = _Shell(exits=_starts_with_e(verifier))
    for index, command in enumerate(verifier.commands):
        if command.program == "set":
            shell.set(command.words[1:])
        elif command.program == "trap" and _is_rescue(command, verifier):
            return None
        elif command.program == "exit":
            if not command.depth and command.status == "plain":
                return None
            shell.written = False  # that branch is over, and the others have not written it
        elif shell.written and not command.depth:
            return None
        if shell.exits and command.status == "plain" and (shell.pipefail or not command.piped):
            failing = _failing(command, verifier)
            later = verifier.commands[index + 1 :]
            if failing and not verifier.writes_reward(command) and any(map(verifier.writes_reward, later)):
                return command.line, failing
        shell.written = shell.written or (verifier.writes_reward(command) and command.status != "lost")
    return None


def _starts_with_e(verifier: Verifier) -> bool:
    return re.match(r"#!.*\s-\w*e", verifier.text) is not None


def _is_rescue(command: Command, verifier: Verifier) -> bool:
    """Whether a trap sees to the reward; one that only removes files does not."""
    if len(command.words) < 3 or not {"EXIT", "ERR", "0"} & set(command.words[2:]):
        return False
    in_trap = read_script(f"{verifier.text}\n{command.words[1]}\n")[len(verifier.commands) :]
    return any(map(verifier.writes_reward, in_trap))


def _failing(command: Command, verifier: Verifier) -> str | None:
    """What a command is called that fails where the agent's work is bad or missing."""
    if check := verifier.check_of(command):
        return check
    if command.program in _COMPARERS and not command.captured:
        return command.program
    sources = [*command.arguments[1:], *(target for operator, target in command.redirects if operator == "<")]
    reads = command.program in _READERS or _INTERPRETERS.fullmatch(command.program)
    if verifier.output and reads and any(verifier.output in word for word in sources):
        return command.program
    return None


def unread_verdicts(verifier: Verifier) -> Iterator[tuple[int, str]]:
    """The lines of checks whose result nothing reads, each with what is wrong there."""
    shell = _Shell(exits=_starts_with_e(verifier))
    for index, command in enumerate(verifier.commands):
        if command.program == "set":
            shell.set(command.words[1:])
            continue
        name = verifier.check_of(command)
        later = [each for each in verifier.commands[index + 1 :] if each.words not in (("true",), (":",))]
        if name is None or command.captured or verifier.writes_reward(command):
            continue
        if any(map(verifier.writes_reward, later)) and (wrong := _why_unread(command, name, later, verifier, shell)):
            yield command.line, wrong


def _why_unread(command: Command, name: str, later: Sequence[Command], verifier: Verifier, shell: _Shell) -> str | None:
    read = " ".join(word for each in later[:3] for word in (*each.words, *each.assigned.values()))
    if command.piped:
        is_wrong = not shell.pipefail and later[0].program in _FILTERS and "PIPESTATUS" not in read
        if is_wrong and (command.status == "tested" or "$?" in read):
            last = later[0].program
            return f"the exit status of `{name} | {last}` is that of {last}, without `set -o pipefail`"
        return None
    if command.status == "ignored" and "$?" in read:
        return f"`$?` is 0 after `{name} || true`, whatever {name} found"
    is_read = command.status == "tested" or (command.status == "plain" and (shell.exits or "$?" in read))
    if is_read or _leaves_report(command, verifier):
        return None
    if command.status == "ignored":
        return f"`|| true` drops the result of {name}, and nothing else keeps it"
    return f"nothing reads whether {name} passed" if any(map(_writes_word, later)) else None


def _writes_word(command: Command) -> bool:
    """Whether a command puts a reward down that stands in the script itself."""
    return command.program in ("echo", "printf") and any(_REWARD.search(target) for _, target in command.redirects)


def _leaves_report(command: Command, verifier: Verifier) -> bool:
    """Whether a check writes down what it found: by an option, by its output, or in the tests themselves."""
    kept = [target for _, target in command.redirects if target not in ("/dev/null", "1", "2")]
    others = (text for path, text in verifier.scripts.items() if path != verifier.path)
    return bool(kept) or any(map(_REPORTS.match, command.words)) or any(map(_WRITES.search, others))


# Python.


_SILENT = re.compile(r"""\bexcept\b[^\n]*:(?:\s|#[^\n]*\n|"[^"\n]*"|'[^'\n]*')*(?:pass|continue|\.\.\.)""")


def caught_assertions(text: str) -> Iterator[int]:
    """The lines of handlers that catch the assertions of their own `try` and do nothing about them.

    Where something still happens behind the last assertion (a `break` of a loop that waits, a `return`, a flag), it is
    known whether it held.
    """
    if "except" not in text or not _SILENT.search(text):  # nearly always, and much faster
        return
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Try) and not node.orelse and _ends_in_assertion(node.body):
            handler = next((each for each in node.handlers if _catches_assertions(each)), None)
            if handler and all(map(_does_nothing, handler.body)):
                yield handler.lineno


def _catches_assertions(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or (isinstance(kind, ast.Name) and kind.id in _CAUGHT) for kind in kinds)


def _does_nothing(statement: ast.stmt) -> bool:
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return is_text or isinstance(statement, ast.Pass | ast.Continue)


def _ends_in_assertion(body: Sequence[ast.stmt]) -> bool:
    """Whether the last thing done is to assert something."""
    last = body[-1]
    if isinstance(last, ast.If | ast.For | ast.With | ast.While):
        return _ends_in_assertion(last.body)
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        called = ast.unparse(last.value.func)
        return called == "pytest.fail" or called.startswith("self.assert") or called == "self.fail"
    return isinstance(last, ast.Assert) and not (isinstance(last.test, ast.Constant) and last.test.value)
