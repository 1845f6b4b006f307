"""Verification: what is to be judged and where, as a value. It can be kept, and judged again.

It also answers what the decisions about a verifier need to know of the task: which files are the system's, what the
task names, what the tests install and are expected to read. Nothing alive is in it; `judge` takes the sandbox and the
machinery beside it.
"""

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal

from seatrial.model.job import TrialOptions
from seatrial.model.record import AgentResult, FileChanges, ModelUsage
from seatrial.sandbox.division import DOT_ENTRIES, Division, divide
from seatrial.trial.place import Place
from seatrial.trial.rounds import Round, rounds_of
from seatrial.trial.spec import TrialSpec
from seatrial.trial.work import Work
from seatrial.verify.artifacts import PUBLISHED
from seatrial.verify.facts import HOME, Named, VerifierNeeds, find_named, find_needs, folders_in_python
from seatrial.verify.reads import Expectations
from seatrial.verify.rules import module_folders
from seatrial.verify.stage import digest_tests

_MAX_SCRIPT_BYTES = 2**20
_MOST_TEXTS = 1000
PYTHON_START = ".python"


@dataclass(frozen=True, slots=True)
class VerifierConditions:
    """How a verifier is run otherwise than usual, to see whether that matters."""

    env: Mapping[str, str] = field(default_factory=dict)
    """Goes before the verifier's own variables."""
    unset_env: Mapping[str, str] = field(default_factory=dict)
    """Only where neither the task nor its image sets them."""
    python_start: bytes | None = None
    """What all its Pythons load at their start, before what they load anyway."""
    network: Literal["task", "none"] = "task"
    """With `none` it reaches nobody, whatever the task says."""
    one_cpu: bool = False
    """Whether its processes have one processor and no other."""

    @property
    def added_tests(self) -> Mapping[str, bytes]:
        """All files that come to `/tests` for it; one whose name begins with a dot is what `*` does not match."""
        return {f"{PYTHON_START}/sitecustomize.py": self.python_start} if self.python_start else {}


USUAL_CONDITIONS = VerifierConditions()


@dataclass(frozen=True)
class Verification:
    """One round of a trial after its agent: what that left behind, and the kind of sandbox it worked in."""

    spec: TrialSpec
    round: Round
    place: Place
    folder: Path
    """Where what the verifier prints and writes goes."""
    agent_result: AgentResult
    work: Work
    earlier: FileChanges = field(default_factory=FileChanges)
    """What agents of earlier rounds changed, who are one with this one's."""
    conditions: VerifierConditions = USUAL_CONDITIONS
    prepared: frozenset[str] = frozenset()
    """What the image's entry point changed before any agent."""
    used: list[ModelUsage] = field(default_factory=list, compare=False)
    """What every run of the verifier has used of its model; one list for all that is made of this one."""

    @property
    def options(self) -> TrialOptions:
        return self.spec.options

    @property
    def trusts_agent(self) -> bool:
        """Whether the task or the run wants the system as the agent left it."""
        return self.round.verifier.system == "agent" or self.options.trust == "as_left"

    @property
    def is_authors_own(self) -> bool:
        """Whether what was judged is the task's own solution: its author has nothing to forge."""
        return self.spec.agent.name == "oracle"

    @cached_property
    def division(self) -> Division:
        """Which of the sandbox's files are the system."""
        return divide(self.place.workdir, self.place.sandbox.system_folders)

    @property
    def homes(self) -> tuple[str, ...]:
        """The homes of those whom the verifier runs as."""
        folders = self.place.sandbox.system_folders
        return (HOME, *(path.removesuffix(DOT_ENTRIES) for path in folders if path.endswith(DOT_ENTRIES)))

    @property
    def accounts(self) -> frozenset[str]:
        """The names and numbers that the verifier works as."""
        user = (
            self.round.verifier_user if self.round.verifier_user is not None else self.place.sandbox.image.config.user
        )
        return frozenset(("root", *([str(user).partition(":")[0]] if user is not None else [])))

    @cached_property
    def module_folders(self) -> frozenset[str]:
        """The shared folders in which the verifier's Python looks for modules."""
        place, phase = self.place, self.round.verifier
        paths = [place.sandbox.env.get("PYTHONPATH") or place.sandbox.image.config.env.get("PYTHONPATH")]
        start = phase.workdir or self.round.task.config.verifier.workdir or place.workdir
        folders = (place.workdir, start, *(posixpath.join(start, folder) for folder in self.needs.folders))
        return module_folders(filter(None, folders), [*paths, phase.env.get("PYTHONPATH")])

    @cached_property
    def named(self) -> Named:
        """What the task talks about, in any of its rounds. What its image changes of the system at its start is meant.

        To put that back as in the image would undo a fault that the agent is to mend.
        """
        texts = [each.instruction().decode("utf-8", "replace") for each in rounds_of(self.round.task)]
        named = find_named([*texts, (self.round.task.root / "task.toml").read_text(errors="replace")])
        return replace(named, paths=named.paths.union(self.division.of_system(self.prepared)))

    @cached_property
    def asked_for(self) -> frozenset[str]:
        """The output, and what is published."""
        round_, workdir = self.round, self.place.workdir
        output, kept = round_.judged.output.path, [artifact.source for artifact in (PUBLISHED, *round_.artifacts)]
        files = {posixpath.normpath(posixpath.join(workdir, path)) for path in (output, *kept) if path}
        # Whoever publishes all of the work does not name a file in it.
        return frozenset(path for path in files if not f"{workdir.rstrip('/')}/".startswith(f"{path.rstrip('/')}/"))

    @cached_property
    def expectations(self) -> Expectations:
        """What the verifier is expected to read of what the agent left."""
        tests = _texts_of(self._digest, self.round.tests())
        return Expectations(self.place.workdir, self.named, tests, self.asked_for, self.module_folders)

    @property
    def _digest(self) -> str:
        return self.spec.task_digest + (digest_tests(self.round.given) if self.round.given else "")

    @cached_property
    def needs(self) -> VerifierNeeds:
        """What the verifier installs for itself."""
        return _needs_of(self._digest, self.round.tests())


@lru_cache(maxsize=1024)
def _needs_of(_: str, folders: tuple[Path, ...]) -> VerifierNeeds:
    """What scripts in some folders install; kept by the digest of their content, for every trial wants to know it."""
    needs = find_needs(_texts(folders, "*.sh"))
    gone_to = (folders_in_python(text) for text in _texts(folders, "*.py"))
    return replace(needs, folders=needs.folders.union(*gone_to))


@lru_cache(maxsize=64)
def _texts_of(_: str, folders: tuple[Path, ...]) -> str:
    """What small files of tests say, one after the other; kept like what they install."""
    return "\n".join(_texts(folders, "*")[:_MOST_TEXTS])


def _texts(folders: tuple[Path, ...], pattern: str) -> list[str]:
    paths = [path for folder in folders for path in sorted(folder.rglob(pattern))]
    small = [path for path in paths if path.is_file() and path.stat().st_size <= _MAX_SCRIPT_BYTES]
    return [path.read_text(errors="replace") for path in small[:_MOST_TEXTS]]
