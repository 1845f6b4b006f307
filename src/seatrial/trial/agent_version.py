"""Which version of an agent works here: it is asked in its sandbox, once for each image, before its first trial there.

A program that does not even say its version cannot work, which is no fault of the agent's: such a trial has no result.
"""

import asyncio
import re
from collections import defaultdict
from dataclasses import dataclass, field

from seatrial.agents.api import AgentLaunch
from seatrial.errors import AgentUnfitError
from seatrial.sandbox.api import ExecResult, ExecSpec, Image, Sandbox

_TIMEOUT_SEC = 120.0
_VERSION = re.compile(r"\d+\.\d+(?:[.+-]?[0-9A-Za-z]+)*")
_MOST_READ = 4096  # looking for a version takes the square of this, at worst
_MOST_SAID = 500
_LONGEST = 80
_OTHER_MACHINE = "The image is for another architecture than this machine"
# What loaders and shells say, and what it means.
_TELLING = {
    "GLIBC_": "The image's C library is too old for it",
    "Exec format error": _OTHER_MACHINE,
    "cannot execute binary file": _OTHER_MACHINE,
}
_BY_SIGNAL = {
    4: "It uses an instruction that this processor does not have",
    11: "It crashed",
    31: "A system call is refused to it",
}
_BY_EXIT_CODE: dict[int | None, str] = {
    127: "The program, or what it is started by, is not there: no layer or set-up brought it",
    126: "The image has another C library or architecture than the program was made for",
    # Of a shell's child, a signal comes as a number above 128.
    **{code: meaning for signal, meaning in _BY_SIGNAL.items() for code in (-signal, 128 + signal)},
}
_OTHERWISE = "Its program is there and fails: the image may lack a library, or memory"


@dataclass(eq=False, slots=True)
class KnownVersions:
    """The versions that agents have told, by their titles and images. Trials that start together ask once."""

    _told: dict[tuple[str, str], str] = field(default_factory=dict)
    _asking: defaultdict[tuple[str, str], asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))

    async def ask(self, title: str, image: Image, sandbox: Sandbox, command: ExecSpec) -> str:
        """The version of an agent in an image, which a command prints.

        Raises AgentUnfitError when its program does not start there.
        """
        key = (title, f"{image.reference}@{image.digest}")
        async with self._asking[key]:
            if key not in self._told:
                self._told[key] = await _ask(title, image, sandbox, command)
        return self._told[key]


def version_command(launch: AgentLaunch, user: str | int | None) -> ExecSpec:
    """The command by which an agent is asked for its version, as the user it runs as."""
    return ExecSpec(launch.version, env=launch.env, cwd=launch.cwd, user=user, timeout_sec=_TIMEOUT_SEC)


async def _ask(title: str, image: Image, sandbox: Sandbox, command: ExecSpec) -> str:
    result = await sandbox.exec(command)
    if result.timed_out or result.exit_code != 0:
        raise AgentUnfitError(_explanation(title, image.reference, result))
    said = _shown(result.stdout[:_MOST_READ] + b"\n" + result.stderr[:_MOST_READ])
    found = _VERSION.search(said)
    return (found[0] if found else said)[:_LONGEST]


def _shown(said: bytes) -> str:
    """What a program said, without what a terminal would obey."""
    text = said.decode(errors="replace").strip()
    return "".join(letter if letter.isprintable() or letter == "\n" else " " for letter in text).strip()


def _explanation(title: str, image: str, result: ExecResult) -> str:
    ended = f"did not answer within {_TIMEOUT_SEC:g} s" if result.timed_out else f"ended with {result.exit_code}"
    said = _shown(result.stderr or result.stdout)[-_MOST_SAID:]
    answer = f"{ended} and said: {said}" if said else ended
    return (
        f"the agent {title!r} does not start in the image {image!r}: asked for its version, it {answer}. "
        f"{_reason(result)}; bring one that fits with --agent-layer, install it by --agent-setup, or use another image"
    )


def _reason(result: ExecResult) -> str:
    said = _shown(result.stderr or result.stdout)
    if told := next((meaning for words, meaning in _TELLING.items() if words in said), None):
        return told
    return _BY_EXIT_CODE.get(result.exit_code, _OTHERWISE)
