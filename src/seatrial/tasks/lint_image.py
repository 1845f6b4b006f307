"""Lint of what a Dockerfile brings: the files that it copies, and the tools that the test script runs.

Reported is only what the files show: a source that the build context does not have; a tool on a well-known base image
that neither the Dockerfile nor the tests mention.
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from seatrial.errors import BuildError
from seatrial.tasks.build_context import ContextTree, Origin, find_sources, has_wildcards, read_ignore_rules
from seatrial.tasks.dockerfile import Instruction, WordError, parse_dockerfile, parse_list, parse_opening
from seatrial.tasks.shell import Command, read_script

# What is copied.

_FETCHED = re.compile(r"\w+://|git@")


def missing_sources(dockerfile: Path, text: str) -> Iterator[tuple[int, str]]:
    """The lines that copy what is not in the build context, each with the reason, as the builder finds it."""
    try:
        parsed = parse_dockerfile(text)
        context = dockerfile.parent
        rules = read_ignore_rules(context, dockerfile)
    except BuildError:  # building says what is wrong
        return
    origin = Origin(ContextTree(context, rules), None, context)
    for instruction in parsed.instructions:
        for word in _sources(instruction, parsed.escape):
            is_plain = rules.empty and ".." not in word and not has_wildcards(word)
            if is_plain and Path(context, word).exists():  # nearly always, and much faster
                continue
            try:
                find_sources(origin, [word])
            except WordError as error:
                yield instruction.line, str(error).replace(f"the build context {context}", "the build context")
            except OSError as error:
                yield instruction.line, f"{word} cannot be read: {error.strerror}"


def _sources(instruction: Instruction, escape: str) -> Iterator[str]:
    """The words that name files of the context and stand there as they are."""
    if instruction.keyword not in ("COPY", "ADD") or any(flag.startswith("--from") for flag in instruction.flags):
        return
    try:
        listed = parse_list(instruction.arguments)
    except WordError:
        return
    words = list(instruction.arguments.split() if listed is None else listed)[:-1]
    for word in words:
        if "$" not in word and not _FETCHED.match(word) and not (instruction.heredocs and parse_opening(word, escape)):
            yield word


# Tools.

_COMMENT = re.compile(r"(?:^|(?<=\s))#.*$", re.MULTILINE)
_CONTINUED = re.compile(r"\\\r?\n")
_FROM = re.compile(r"^\s*FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?", re.MULTILINE | re.IGNORECASE)

# Words that may bring a tool along without its name: another list of packages, a script, a copied environment.
_OBSCURE = re.compile(
    r"requirements|pyproject|poetry|pipenv|pdm\b|conda|mamba|\.toml\b|\.lock\b|\.ya?ml\b|setup\.py|\.whl\b|\.deb\b|"
    r"\.sh\b|\bvenv\b|activate|\bmake\b|\bnix\b|\bbrew\b|\binstall\s+(?:-\S+\s+)*(?:\.|-e\b|-r\b|\$)|COPY\s+--from|"
    r"\bADD\s+\S*(?:tar|tgz|zip)|\|\s*(?:ba)?sh\b|\$\{?\w+\}?\s+install",
    re.IGNORECASE,
)

# By what words a tool may be brought along; its own name always is one.
_BROUGHT_BY = {
    "pytest": r"(?:python3-)?pytest|tox|nox",
    "uv": r"uvx?|astral",
    "uvx": r"uvx?|astral",
    "python": r"python-is-python3|python2\S*|python|pyenv|uv|ln|update-alternatives|alias",
    "python3": r"python\S*|pip3?|uv",
    "curl": r"curl",
    "jq": r"jq",
    "node": r"node\S*|npm|npx|nvm|bun|volta|fnm",
    "npm": r"node\S*|npm|npx|nvm|bun|volta|fnm",
    "go": r"go\S*|golang\S*",
}

_NOTHING_BUT_A_SYSTEM = frozenset({"pytest", "uv", "uvx", "python", "python3", "curl", "jq", "node", "npm", "go"})
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


# By what names apt's python3-pytest can be run: `pytest` came with Debian 12 and Ubuntu 24.04, before there is only
# `pytest-3`. It belongs to the distribution's own Python, which is not the one of images called python.
APTS_PYTEST = "python3-pytest"
_ONLY_PYTEST_3 = re.compile(r"ubuntu:(?:1\d|2[0-2])\.|debian:(?:9|10|11)\b|bionic|focal|jammy|stretch|buster|bullseye")


def missing_in_image(entry: str, tests: str, dockerfile: str) -> Iterator[str]:
    """The tools that the test script `entry` runs and that nothing brings along.

    `tests` is the text of all scripts of the verifier, `dockerfile` that of the image it runs in.
    """
    build = _plain(dockerfile)
    lacking = _lacking(build)
    if not lacking or _OBSCURE.search(build):
        return
    commands = read_script(entry)
    everything = _plain(tests)
    for tool in sorted(lacking):
        ways = {way for command in commands if (way := _way_run(command, tool))}
        if not ways:
            continue
        texts = build, everything
        if tool == "pytest" and not _is_served_by_apt(build, ways):
            texts = build.replace(APTS_PYTEST, ""), everything.replace(APTS_PYTEST, "")
        if not re.search(rf"\b(?:{_BROUGHT_BY[tool]})\b", texts[0]) and not _is_seen_to(texts[1], tool):
            yield tool


def _way_run(command: Command, tool: str) -> str | None:
    words = command.arguments
    if words[:1] == (tool,):
        return "program"
    is_module = tool == "pytest" and "-m" in words[1:4] and words[words.index("-m") + 1 :][:1] == (tool,)
    return "module" if is_module and command.program.startswith("python") else None


def _is_served_by_apt(build: str, ways: set[str]) -> bool:
    """Whether apt's pytest is there by the names by which it is run."""
    base = _FROM.findall(build)[0][0]
    if "module" in ways and posixpath.basename(base).startswith("python"):
        return False
    return "program" not in ways or not _ONLY_PYTEST_3.search(base)


def _plain(text: str) -> str:
    return _COMMENT.sub("", _CONTINUED.sub(" ", text))


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
