"""What a trial is run from: `TrialSpec` is all that describes one, as plain data that can be sent to another machine.

`Machinery` is the live half, opened once for all trials of a place: sandboxes, images, the way to a model, agents, and
which version of each agent works in which image. `jobs/machinery.py` opens one.
"""

import asyncio
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from seatrial.agents.api import Agent, AgentLaunch, make_agent
from seatrial.errors import AgentUnfitError
from seatrial.images.resolver import HOST_ONLY, ImageResolver
from seatrial.model.job import AgentOptions, TrialOptions
from seatrial.model.loaded_task import Task
from seatrial.sandbox.api import ExecResult, ExecSpec, Image, Sandbox, SandboxBackend
from seatrial.sandbox.host.watch import Company

if TYPE_CHECKING:
    from seatrial.gateway.access import ModelAccess
    from seatrial.trial.verifier import OwnStaging


@dataclass(frozen=True, slots=True)
class TrialSpec:
    """One attempt of one agent at one task. One that is a rollout has the `row` of its dataset, as JSON, to be sent."""

    trial_id: str
    task: Task
    task_digest: str
    agent: AgentOptions
    attempt: int = 1
    job: str | None = None
    job_id: str | None = None
    options: TrialOptions = field(default_factory=TrialOptions)
    company: Company = "others"
    row: str | None = None


# Which version of an agent works here: asked in its sandbox, once for each image, before its first trial there. A
# program that does not even print its version cannot work, which is not the agent's fault: such a trial has no result.

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


def _shown(said: bytes) -> str:
    """What a program said, without what a terminal would obey."""
    text = said.decode(errors="replace").strip()
    return "".join(letter if letter.isprintable() or letter == "\n" else " " for letter in text).strip()


# The machinery.


@dataclass(eq=False, slots=True)
class Machinery:
    """The live half of a trial, as its spec is the written one. `agents` that are given are not made, by their titles.

    Without a `model`, agents have no gateway; without a `verifier_model`, verifiers have none. With a `staging`,
    somebody else lays out what verifiers find.
    """

    backend: SandboxBackend
    images: ImageResolver = HOST_ONLY
    model: "ModelAccess | None" = None
    verifier_model: "ModelAccess | None" = None
    agents: Mapping[str, Agent] = field(default_factory=dict)
    versions: KnownVersions = field(default_factory=KnownVersions)
    staging: "OwnStaging | None" = None
    _made: dict[str, Agent] = field(default_factory=dict)

    def with_agent(self, title: str, agent: Agent | None) -> "Machinery":
        """The same machinery with an agent that is given, without a model."""
        given = {title: agent} if agent else {}
        return replace(self, model=None, agents={**self.agents, **given}, staging=None, _made={})

    def agent(self, options: AgentOptions) -> Agent:
        """The agent that options describe, made once. Raises UsageError for options that no agent can use."""
        given = self.agents.get(options.title) or self._made.get(options.title)
        if given is None:
            given = self._made[options.title] = make_agent(options)
        return given
