"""What a task's own solution does to the environment: it tells what is normal.

What the solution changes in the system is the agent's to change too, and what the verifier reads of the solution's
files is expected. It is run once per task, in a fresh sandbox, and only for a trial that would be disputed. `Answers`
keeps what holds for all trials of a task while the run lasts; `verdict.py` keeps its baselines in one too.
"""

import asyncio
import os
import posixpath
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Set
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from seatrial.agents.api import AgentContext, AgentLaunch
from seatrial.agents.environ import agent_variables
from seatrial.errors import AgentSetupError, ContentError, EntrypointError, HealthcheckError
from seatrial.model.job import AgentOptions
from seatrial.model.record import AgentResult, FileChanges
from seatrial.sandbox.api import Sandbox, open_sandbox
from seatrial.sandbox.transfer import get_file
from seatrial.tasks.variables import allowed_variables
from seatrial.trial.entrypoint import Entrypoint
from seatrial.trial.place import agent_network
from seatrial.trial.rounds import Round
from seatrial.trial.setup import open_task, rounds_up_to, stage_round
from seatrial.trial.shield import Shield, curate_left
from seatrial.trial.spec import Machinery
from seatrial.trial.verification import Verification
from seatrial.trial.work import merge_changes, run_agent, take_stock
from seatrial.verify.curate import NO_UNITS, Curated, Expected, Units, each, find_units, package_lists
from seatrial.verify.originals import Fingerprint, fingerprints
from seatrial.verify.stage import digest_tests

# The reference of a task.

_ORACLE = AgentOptions(name="oracle")
_LONGEST_SEC = 3600.0  # where the agent may work as long as it likes
_MOST_LISTS = 1000
_MAX_LIST_BYTES = 4 * 2**20

Read = Callable[[Verification, Sandbox], Awaitable[frozenset[str]]]
"""Runs the verifier on an end state in a sandbox; returns which of the files that were changed there it opened."""


@dataclass(frozen=True, slots=True)
class TaskReference:
    """What a task's own solution added, modified and removed, and which units of the system that concerns."""

    changes: FileChanges = field(default_factory=FileChanges)
    system: Units = NO_UNITS
    reads: frozenset[str] = frozenset()
    """The files of the solution that the verifier opened on its end state."""

    def concerns(self, curated: Curated) -> bool:
        """Whether anything that a verifier did not meet is the solution's to change."""
        units = self.system
        return any(path in units.contents or units.has(path) for path in (*curated.put_back, *curated.hidden))


# Answers that hold for all trials of a task: each is found once.

_KEPT_ANSWERS = 4096
T = TypeVar("T")


@dataclass(eq=False, slots=True)
class Answers(Generic[T]):
    """The answers that are known, and a lock for each question that is being asked."""

    known: OrderedDict[Hashable, T] = field(default_factory=OrderedDict)
    asking: dict[Hashable, asyncio.Lock] = field(default_factory=dict)

    async def get(self, question: Hashable, ask: Callable[[], Awaitable[T]]) -> T:
        """The answer; trials that want the same one at the same time wait for the first of them.

        If that one fails, the next one asks for itself.
        """
        if question not in self.known:
            async with self.asking.setdefault(question, asyncio.Lock()):
                try:
                    if question not in self.known:
                        self.keep(question, await ask())
                finally:
                    self.asking.pop(question, None)
        return self.known[question]

    def keep(self, question: Hashable, answer: T) -> None:
        self.known[question] = answer
        if len(self.known) > _KEPT_ANSWERS:
            self.known.popitem(last=False)


class RunAnswers(Generic[T]):
    """The answers of each run.

    A run has one event loop; what an earlier run found may no longer hold where the image is this machine's own system.
    """

    def __init__(self) -> None:
        self._runs: WeakKeyDictionary[asyncio.AbstractEventLoop, Answers[T]] = WeakKeyDictionary()

    def of_this_run(self) -> Answers[T]:
        return self._runs.setdefault(asyncio.get_running_loop(), Answers())


def question_about(verification: Verification, tests_digest: str) -> Hashable:
    """All that an answer about the environment of a round depends on."""
    image, spec = verification.place.sandbox.image, verification.spec
    options = spec.options.model_dump_json()
    return spec.task_digest, verification.round.name, tests_digest, image.reference, image.digest, options


# Finding it.

_answers: RunAnswers[TaskReference | None] = RunAnswers()


async def reference_of(
    verification: Verification, machinery: Machinery, read: Read | None = None
) -> TaskReference | None:
    """What the solution of the task that is verified does; None where there is no solution that works here.

    Raises TrialError when a sandbox fails on the way.
    """
    if any(round_.layout.solution_script is None for round_ in rounds_up_to(verification)):
        return None
    question = question_about(verification, digest_tests(verification.round.tests()))
    return await _answers.of_this_run().get(question, lambda: _find(verification, machinery, read))


async def expected_of(
    reference: TaskReference, sandbox: Sandbox, verification: Verification, shield: Shield
) -> Expected:
    """What an agent may change, and what of that it left as the solution does: in the sandbox, where it left it.

    While processes of the agent run on, a file may be another a moment later, so none is taken for the solution's.
    """
    units = reference.system
    if verification.work.survivors and shield.isolation == "guarded":
        return Expected(units)
    unmet = {*shield.curated.put_back, *shield.curated.hidden}
    found = await fingerprints(sandbox, unmet & units.contents.keys())
    alike = {path: mark for path, mark in found.items() if mark == units.contents[path]}
    changed = {change.path for change in each(merge_changes([verification.earlier, verification.work.found]))}
    others = changed - alike.keys()
    return Expected(units, frozenset(path for path, mark in alike.items() if not _leads_to(mark, others)))


def _leads_to(mark: Fingerprint, others: Set[str]) -> bool:
    """Whether something is a link to one of some files, or through one: the same link, but not to the same."""
    path = mark.leads_to or ""
    while path.strip("/"):
        if path in others:
            return True
        path = posixpath.dirname(path)
    return False


async def _find(verification: Verification, machinery: Machinery, read: Read | None) -> TaskReference | None:
    """Run the solution in a fresh sandbox and take stock of it."""
    spec = replace(verification.spec, agent=_ORACLE)
    asked = replace(verification, spec=spec, folder=verification.folder / "reference")
    first = rounds_up_to(asked)[0]
    async with AsyncExitStack() as stack:
        fresh = await stack.enter_async_context(open_sandbox(machinery.backend, verification.place.sandbox))
        try:
            opening = open_task(fresh, spec, first, verification.place, asked.folder)
            solved = await _solve(asked, machinery, fresh, await stack.enter_async_context(opening))
        except (AgentSetupError, HealthcheckError, EntrypointError):
            return None
        if solved is None:
            return None
        changes = merge_changes([solved.earlier, solved.work.found])
        units = await _find_units(solved, machinery, fresh, changes)
        return TaskReference(changes, units, await read(solved, fresh) if read else frozenset())


async def _find_units(verification: Verification, machinery: Machinery, fresh: Sandbox, changes: FileChanges) -> Units:
    lists = []
    for path in package_lists(changes)[:_MOST_LISTS]:
        with suppress(FileNotFoundError, ContentError):
            lists.append((await get_file(fresh, path, limit=_MAX_LIST_BYTES)).decode("utf-8", "replace"))
    curated = await curate_left(verification, fresh, machinery)
    return find_units(changes, lists, await fingerprints(fresh, [*curated.put_back, *curated.hidden]))


async def _solve(
    verification: Verification, machinery: Machinery, fresh: Sandbox, entrypoint: Entrypoint
) -> Verification | None:
    """Run the solutions up to the round that is verified, which is then verified; None when one of them fails."""
    place, rounds, found = verification.place, rounds_up_to(verification), FileChanges()
    for round_ in rounds:
        with entrypoint.preparing():
            launch = await _stage(verification, round_, machinery, fresh)
        result = await _run(verification, round_, launch, fresh)
        if result.exit_code != 0:
            return None
        if round_ is not rounds[-1]:
            found = merge_changes([found, await fresh.changes()])
    work = await take_stock(fresh, verification.round, place, result, verification.folder)
    return replace(verification, agent_result=result, work=work, earlier=found)


async def _stage(verification: Verification, round_: Round, machinery: Machinery, fresh: Sandbox) -> AgentLaunch:
    spec, place = verification.spec, verification.place
    allowed = allowed_variables(spec.options.allow_env)
    context = AgentContext(round_.task, round_.step, place.workdir, os.environ, allowed)
    launch = machinery.agent(_ORACLE).prepare(context)
    assert launch is not None  # noqa: S101 - it has a solution
    await stage_round(fresh, spec, round_, place, launch, agent_network(round_, spec.options, place.capabilities))
    return launch


async def _run(verification: Verification, round_: Round, launch: AgentLaunch, fresh: Sandbox) -> AgentResult:
    options = verification.options
    variables = agent_variables(round_.task, round_.task.workdir, None)
    seconds = round_.agent_seconds(options) or _LONGEST_SEC
    network = agent_network(round_, options, verification.place.capabilities)
    folder = verification.folder / round_.folder / "agent"
    return await run_agent(fresh, round_, launch.finished(variables), network, seconds, folder)
