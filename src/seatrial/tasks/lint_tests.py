"""Lint of a verifier's scripts: does it exist, will it write a reward, does it look where the instruction points?"""

import difflib
import os
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath

from seatrial.model.loaded_task import Problem, Severity, TaskLayout
from seatrial.model.output import OutputSpec, format_of
from seatrial.model.task import TaskConfig
from seatrial.tasks.layout import list_files, read_text

# Tools that a test script runs: does anything bring them into the image? Reported is only what the files show: a task
# on a well-known base image, where neither the Dockerfile nor the tests mention the tool.

_COMMENT = re.compile(r"(?:^|(?<=\s))#.*$", re.MULTILINE)
_CONTINUED = re.compile(r"\\\r?\n")
_FROM = re.compile(r"^\s*FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?", re.MULTILINE | re.IGNORECASE)
_BEFORE_A_COMMAND = r"(?:^|[;&|({!]|\$\(|\b(?:then|do|else|exec|if|while|time|sudo|nohup)\s)\s*(?:\w+=\S*\s+)*"
_AS_MODULE = r"|\bpython[\d.]*\s+(?:-\w\s+)*-m\s+pytest\b"

# Words that may bring a tool along without its name: another list of packages, a script, a copied environment.
_OBSCURE = re.compile(
    r"requirements|pyproject|poetry|pipenv|pdm\b|conda|mamba|\.toml\b|\.lock\b|\.ya?ml\b|setup\.py|\.whl\b|\.deb\b|"
    r"\.sh\b|\bvenv\b|activate|\bmake\b|\bnix\b|\bbrew\b|\binstall\s+(?:-\S+\s+)*(?:\.|-e\b|-r\b|\$)|COPY\s+--from|"
    r"\bADD\s+\S*(?:tar|tgz|zip)|\|\s*(?:ba)?sh\b|\$\{?\w+\}?\s+install",
    re.IGNORECASE,
)

# By what words a tool may be brought along; its own name always is one.
_BROUGHT_BY = {
    "pytest": r"pytest|tox|nox",
    "uv": r"uvx?|astral",
    "uvx": r"uvx?|astral",
    "python3": r"python\S*|pip3?|uv",
    "curl": r"curl",
    "jq": r"jq",
    "node": r"node\S*|npm|npx|nvm|bun|volta|fnm",
    "npm": r"node\S*|npm|npx|nvm|bun|volta|fnm",
    "go": r"go\S*|golang\S*",
}

_NOTHING_BUT_A_SYSTEM = frozenset({"pytest", "uv", "uvx", "python3", "curl", "jq", "node", "npm", "go"})
_PYTHON_ONLY = frozenset({"pytest", "uv", "uvx", "jq", "go"})
# Packages of a distribution that bring no Python; with any other one nobody can tell without asking the distribution.
_WITHOUT_PYTHON = frozenset(
    """
    bash ca-certificates curl wget git jq make gcc g++ build-essential cmake perl unzip zip tar gzip xz-utils bzip2
    nano less tmux procps sudo file tree sed gawk grep coreutils findutils sqlite3 openssl netcat-openbsd iproute2
    rsync iputils-ping dnsutils openssh-client openssh-server tzdata locales golang golang-go
    """.split()  # noqa: SIM905 - names read better as text
)
_INSTALLED = re.compile(r"\b(?:apt-get|apt|apk)\s+(?:-\S+\s+)*(?:install|add)\s+([^&|;\n]*)")


def missing_in_image(entry: str, tests: str, dockerfile: str) -> Iterator[str]:
    """The tools that the test script `entry` runs and that nothing brings along.

    `tests` is the text of all scripts of the verifier, `dockerfile` that of the image it runs in.
    """
    build = _plain(dockerfile)
    lacking = _lacking(build)
    if not lacking or _OBSCURE.search(build):
        return
    script, everything = _plain(entry), _plain(tests)
    for tool in sorted(lacking):
        brought = rf"\b(?:{_BROUGHT_BY[tool]})\b"
        if _runs(script, tool) and not re.search(brought, build) and not _is_seen_to(everything, tool):
            yield tool


def _plain(text: str) -> str:
    return _COMMENT.sub("", _CONTINUED.sub(" ", text))


def _runs(script: str, tool: str) -> bool:
    module = _AS_MODULE if tool == "pytest" else ""
    return re.search(rf"{_BEFORE_A_COMMAND}{tool}(?=\s|$){module}", script, re.MULTILINE) is not None


def _is_seen_to(tests: str, tool: str) -> bool:
    """Whether the tests install the tool, look whether it is there, or change where tools are looked for."""
    if re.search(r"\bPATH=|\bsource\s|^\s*\.\s|\bvenv\b|\binstall\s+(?:-\S+\s+)*(?:\.|-e\b|-r\b)", tests, re.MULTILINE):
        return True
    word = rf"(?<![\w-])(?:{_BROUGHT_BY[tool]})(?![\w-])"
    looked_for = r"\b(?:install|add|command\s+-v|which|type|hash|curl|wget|ensurepip|alias|function)\b"
    lines = (line for line in tests.splitlines() if re.search(looked_for, line) and not _is_run_of(line, tool))
    return f"{tool}()" in tests or any(re.search(word, line) for line in lines)


def _is_run_of(line: str, tool: str) -> bool:
    """Whether a line only runs the tool, as `curl -s localhost` does."""
    return re.match(rf"\s*{tool}\s(?!.*\binstall\b)", line) is not None


def _lacking(build: str) -> frozenset[str]:
    """What the base of a Dockerfile's last stage is known to lack; nothing where the base is not known."""
    bases = _FROM.findall(build)
    if len(bases) != 1:  # of several stages, any may hand something to the last
        return frozenset()
    image = bases[0][0].rpartition("/")[2]
    name, _, tag = image.partition(":")
    if bases[0][0] not in (image, f"library/{image}", f"docker.io/{image}", f"docker.io/library/{image}"):
        return frozenset()
    if name in ("ubuntu", "debian"):
        return _NOTHING_BUT_A_SYSTEM if _brings_no_python(build) else _NOTHING_BUT_A_SYSTEM - {"python3"}
    if name == "python":
        return _PYTHON_ONLY | {"curl", "node", "npm"} if "slim" in tag else _PYTHON_ONLY
    return frozenset()


def _brings_no_python(build: str) -> bool:
    words = {word.partition("=")[0] for line in _INSTALLED.findall(build) for word in line.split()}
    return {word for word in words if not word.startswith("-")} <= _WITHOUT_PYTHON


# The scripts themselves.

SCRIPT_SUFFIXES = frozenset(
    {"", ".sh", ".py", ".js", ".mjs", ".ts", ".rb", ".pl", ".go", ".rs", ".bats", ".bat", ".cmd", ".ps1"}
)
MAX_SCRIPT_BYTES = 2**20
_KIT = "verifier_kit.py"
_LOGS_DIR = "/logs/verifier"
_REWARD_NAMES = ("reward.json", "reward.txt")
_FILE_NAME = re.compile(r"[\w-]+\.(?:json|jsn|txt|text)\b", re.IGNORECASE)
_PATH = re.compile(r"(?<![\w/.])/[\w.@%+~/-]+\.\w+")
_SHELL_SWALLOW = re.compile(
    r"^[^#\n]*\b(?:pytest|python3?|node|npm|cargo|go|make|bash|sh)\b[^\n|]*\|\|\s*(?:true|:)\s*$", re.MULTILINE
)
_PYTHON_SWALLOW = re.compile(
    r"^[ \t]*except(?:[ \t]+\(?(?:Base)?Exception\)?(?:[ \t]+as[ \t]+\w+)?)?[ \t]*:[ \t]*(?:#[^\n]*)?"
    r"\n[ \t]+(?:pass|\.\.\.)[ \t]*$",
    re.MULTILINE,
)
_SET_E = re.compile(r"^\s*set\s+-(?:\w*e|o\s+errexit)|^#!.*\s-\w*e", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Unit:
    """What one verifier judges by: its scripts by relative path, and the output it is about."""

    scripts: Mapping[str, str]
    folder: str
    layout: TaskLayout
    output: OutputSpec
    config: TaskConfig
    dockerfile: str | None = None
    """Of the image that the verifier runs in; None where that is not built from one."""

    @property
    def entry(self) -> str:
        """The text of the test script, empty when there is none."""
        return self.scripts.get(self.layout.test_script or "", "")

    @property
    def own(self) -> dict[str, str]:
        """The scripts the author wrote: all but the verifier kit."""
        return {path: text for path, text in self.scripts.items() if posixpath.basename(path) != _KIT}


def read_unit(root: Path, folders: tuple[str, ...], layout: TaskLayout, output: OutputSpec, config: TaskConfig) -> Unit:
    """Read the scripts below some folders of a task; one behind a link that leads out of it is none of its own."""
    files = list_files(root)
    scripts = {}
    for path in sorted((files.regular | files.links).difference(files.escaping)):
        if path.startswith(tuple(f"{folder}/" for folder in folders)) and PurePath(path).suffix in SCRIPT_SUFFIXES:
            with suppress(ValueError):  # too long for a script, or no file
                text = read_text(root / path, MAX_SCRIPT_BYTES, "replace")
                scripts[os.fsencode(path).decode("utf-8", "backslashreplace")] = text
    return Unit(scripts, folders[-1], layout, output, config)


def new_problem(code: str, severity: Severity, file: str, message: str, fix: str, key: str | None = None) -> Problem:
    return Problem(code=code, severity=severity, file=file, key=key, message=message, fix=fix)


def _missing_test_script(unit: Unit) -> Iterator[Problem]:
    environment = unit.config.verifier.environment
    image = environment.docker_image if environment else None
    bundled = image or unit.layout.verifier_dockerfile or unit.layout.verifier_compose_file
    if unit.layout.test_script or bundled:
        return
    other = unit.config.extra.get("verifier.command")
    message = f"no test script, though [verifier] command says {other!r}" if other else "no test script"
    yield new_problem("missing-test-script", "error", f"{unit.folder}/test.sh", message, "add one that writes a reward")


def _reward_near_miss(unit: Unit) -> Iterator[Problem]:
    right = {*_REWARD_NAMES, posixpath.basename(unit.config.verifier.reward_path)}
    spoken = names_reward(unit.scripts.values(), unit.config)
    for path, text in unit.own.items():
        for name in sorted(set(_FILE_NAME.findall(text)) - right):
            meant = difflib.get_close_matches(name.lower(), _REWARD_NAMES, n=1, cutoff=0.88)
            if meant:
                # Only a file that is certainly written where the reward belongs is certainly a mistake.
                severity: Severity = "error" if not spoken and f"{_LOGS_DIR}/{name}" in text else "warning"
                message = f"names {name}, which is never read"
                yield new_problem("reward-near-miss", severity, path, message, f"call it {meant[0]}")


def names_reward(scripts: Iterable[str], config: TaskConfig) -> bool:
    """Whether any script names a file that is read as the reward, or the program that writes one."""
    declared = posixpath.basename(config.verifier.reward_path)
    return any(name in text for text in scripts for name in (*_REWARD_NAMES, declared, "rewardkit"))


def _no_reward_written(unit: Unit) -> Iterator[Problem]:
    speaks_otherwise = unit.config.verifier.verdict == "exit_status"
    if unit.layout.test_script and not speaks_otherwise and not names_reward(unit.scripts.values(), unit.config):
        message = "no script below tests/ names a reward file"
        fix = "write /logs/verifier/reward.json; the verifier kit does it safely"
        yield new_problem("no-reward-written", "warning", unit.layout.test_script, message, fix)


def _output_path_differs(unit: Unit) -> Iterator[Problem]:
    expected = unit.output.path
    everything = "\n".join(unit.own.values())
    if expected is None or not everything or posixpath.basename(expected) in everything:
        return
    folder = posixpath.dirname(expected)
    read = {path for path in _PATH.findall(everything) if posixpath.dirname(path) == folder or _alike(path, expected)}
    others = sorted(path for path in read if format_of(path) == unit.output.format)
    if others:
        # Nobody loses a reward over a path that was not declared, nor over a file that may be an input.
        sure = unit.output.source == "declared" and any(_alike(path, expected) for path in others)
        severity: Severity = "error" if sure else "warning"
        message = f"reads {', '.join(others)}, but the expected output is {expected} ({unit.output.reason})"
        fix = "make the instruction and the tests name the same path, or declare it in [output]"
        yield new_problem("output-path-differs", severity, unit.layout.test_script or "tests/", message, fix)


def _alike(path: str, expected: str) -> bool:
    names = posixpath.basename(path), posixpath.basename(expected)
    return difflib.SequenceMatcher(None, *names).ratio() >= 0.8


def _swallowed_errors(unit: Unit) -> Iterator[Problem]:
    for path, text in unit.own.items():
        pattern = _PYTHON_SWALLOW if path.endswith(".py") else _SHELL_SWALLOW
        match = pattern.search(text)
        if match:
            line = text.count("\n", 0, match.start()) + 1
            message = f"line {line} swallows every error, so a broken check looks like a judged one"
            fix = "let it fail: a verifier that crashes is reported as a verifier error, not as a failed agent"
            yield new_problem("swallowed-errors", "warning", path, message, fix)


def _ends_before_reward(unit: Unit) -> Iterator[Problem]:
    script = unit.layout.test_script
    writes_itself = any(name in unit.entry for name in _REWARD_NAMES)
    if script and writes_itself and _SET_E.search(unit.entry) and "trap" not in unit.entry:
        message = "`set -e` can end the script before it writes a reward"
        yield new_problem("set-e", "warning", script, message, "drop `set -e`, or write the reward in `trap … EXIT`")


def _cannot_start(unit: Unit) -> Iterator[Problem]:
    script = unit.layout.test_script
    if not script or not script.endswith(".sh"):
        return
    if "\r\n" in unit.entry:
        message = "has Windows line ends, which a Linux shell cannot run"
        severity: Severity = "error" if has_crlf_interpreter(unit.entry) else "warning"
        yield new_problem("crlf-script", severity, script, message, "save it with Unix line ends")
    if not unit.entry.startswith("#!"):
        yield new_problem(
            "no-shebang", "note", script, "has no #! line; it is run by /bin/sh", "start it with #!/bin/sh"
        )


def _missing_tools(unit: Unit) -> Iterator[Problem]:
    if not unit.layout.test_script or unit.dockerfile is None:
        return
    for tool in missing_in_image(unit.entry, "\n".join(unit.scripts.values()), unit.dockerfile):
        message = f"runs {tool}, which neither the Dockerfile nor the tests install"
        fix = f"install {tool} in environment/Dockerfile or in the test script"
        yield new_problem("missing-tool", "warning", unit.layout.test_script, message, fix)


def has_crlf_interpreter(script: str) -> bool:
    """Whether the system would look for an interpreter with a carriage return in its name, which nobody has."""
    first, _, _ = script.partition("\n")
    return first.startswith("#!") and first.endswith("\r")


TESTS_CHECKS: tuple[Callable[[Unit], Iterator[Problem]], ...] = (
    _missing_test_script,
    _reward_near_miss,
    _no_reward_written,
    _output_path_differs,
    _swallowed_errors,
    _ends_before_reward,
    _cannot_start,
    _missing_tools,
)
