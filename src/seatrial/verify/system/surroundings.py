"""What a change to the system is judged by, and the answers that there are."""

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Literal

from seatrial.verify.system.facts import HOME, SystemFacts
from seatrial.verify.system.named import Named
from seatrial.verify.system.verifier_needs import VerifierNeeds

Kind = Literal["added", "modified", "removed"]
Reason = Literal[
    "of the image",
    "loaded by itself",
    "in front of the image's",
    "a tool of the verifier",
    "not named",
    "not in the task's folders",
]

HOOKS = frozenset({"sitecustomize", "usercustomize"})
# The standard library asks for these in vain: they belong to other machines and other implementations of Python.
FOREIGN_MODULES = frozenset(
    """
    org java vms_lib _winreg win32api win32con win32evtlogutil msvcrt nt winreg winsound _winapi _overlapped _msi
    _scproxy
    """.split()  # noqa: SIM905 - names read better as text
)
PYTHON = re.compile(r"python[\d.]*")
# What verifiers are written with. Where the image has none, one that nobody talks about is not the agent's to bring.
TOOLS = frozenset(
    """
    sh bash dash busybox env node npm npx perl pytest py.test uv uvx pip pip3 awk gawk mawk bc cmp curl diff egrep
    fgrep file find git grep jq kill nc openssl pgrep pkill ps sed ss tar unzip wget xargs xxd gzip gunzip zcat [
    b2sum base64 basename cat chmod chown cksum comm cp cut date dd df dirname du echo expr false fold head hostname
    id install join ln ls md5sum mkdir mkfifo mktemp mv nl nproc od paste printenv printf pwd readlink realpath rm
    rmdir seq sha1sum sha256sum sha512sum sleep sort split stat sum sync tac tail tee test timeout touch tr true
    truncate uname uniq wc which whoami yes
    """.split()  # noqa: SIM905 - a hundred quotes would hide the names
)


def is_tool(program: str) -> bool:
    """Whether a program is one that verifiers are written with."""
    return program in TOOLS or PYTHON.fullmatch(program) is not None


@dataclass(frozen=True, slots=True)
class Change:
    """One file that differs from the image."""

    path: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a change is judged by.

    `texts` are what small files say that tools load by themselves; `replaced` are the entries, in folders of Python
    packages, of distributions of which the agent installed another version. `added_files` are all that the agent added
    anywhere, `plain_files` those beside the work that have no suffix and are no links, `shadows` those that stand in
    front of others, `folders` those of the image in which something was added, `homes` those of whoever verifies,
    `accounts` what the list of accounts is to say instead of what it does. `importable` are modules that an interpreter
    of the image has, besides those of every standard library; `originals` what changed settings of homes said before.
    """

    facts: SystemFacts = field(default_factory=SystemFacts)
    named: Named = field(default_factory=Named)
    needs: VerifierNeeds = field(default_factory=VerifierNeeds)
    workdir: str = "/app"
    texts: Mapping[str, str] = field(default_factory=dict)
    replaced: frozenset[str] = frozenset()
    added_files: frozenset[str] = frozenset()
    shadows: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()
    homes: tuple[str, ...] = (HOME,)
    accounts: str | None = None
    plain_files: frozenset[str] = frozenset()
    importable: Container[str] = frozenset()
    originals: Mapping[str, str] = field(default_factory=dict)
