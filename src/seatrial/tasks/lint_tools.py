"""Lint of the tools that a test script runs: does anything bring them into the image?

Only what can be seen in the files is said: a task with a Dockerfile on a base image that is well known, where neither
the Dockerfile nor the tests have a word about the tool. Everything less certain is left to the run itself.
"""

import re
from collections.abc import Iterator

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
    {
        *(
            "bash",
            "ca-certificates",
            "curl",
            "wget",
            "git",
            "jq",
            "make",
            "gcc",
            "g++",
            "build-essential",
            "cmake",
            "perl",
        ),
        *("unzip", "zip", "tar", "gzip", "xz-utils", "bzip2", "nano", "less", "tmux", "procps", "sudo", "file", "tree"),
        *("sed", "gawk", "grep", "coreutils", "findutils", "sqlite3", "openssl", "netcat-openbsd", "iproute2", "rsync"),
        *("iputils-ping", "dnsutils", "openssh-client", "openssh-server", "tzdata", "locales", "golang", "golang-go"),
    }
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
