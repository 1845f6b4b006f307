"""Asks the verifier of one task: about whole trials, and about end states that exist already.

What the machinery fails is tried once more; then there is no verdict, which is never a finding.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from seatrial.agents.api import Agent
from seatrial.check.cases import Case, CaseVerdict
from seatrial.check.judging import CaseAgent, lay_out, verdict_of_judged, verdict_of_trial
from seatrial.descriptors import is_shortage
from seatrial.errors import TrialError, UsageError
from seatrial.jobs.admission import Admission
from seatrial.jobs.places import memory_of
from seatrial.model.job import AgentOptions, TrialOptions
from seatrial.model.loaded_task import Task
from seatrial.model.record import AgentResult, Baseline, TrialRecord, VerifierRun
from seatrial.store.files import remove_tree
from seatrial.trial.end_state import EndState, StateBench
from seatrial.trial.place import Place, find_place
from seatrial.trial.rounds import Round, rounds_of
from seatrial.trial.run import run_trial
from seatrial.trial.spec import Machinery, TrialSpec

_TRIES = 2


@dataclass(frozen=True, slots=True)
class CheckTools:
    """What the checks of all tasks share: sandboxes, room for so many verifications at once, and how they are run."""

    machinery: Machinery
    admission: Admission
    options: TrialOptions
    verified: Callable[[int], None] = lambda _: None
    """Is told how many verifiers have just been run."""


class OutOfTimeError(Exception):
    """A verification took longer than there is time for it."""


@dataclass(frozen=True, slots=True)
class RanTrial:
    """A trial that was run for a check, with the folder of its files, and its agent if that was a given one."""

    spec: TrialSpec
    record: TrialRecord
    folder: Path
    agent: Agent | None = None


@dataclass(eq=False, slots=True)
class Examiner:
    """Has the verifier of one task asked."""

    task: Task
    digest: str
    tools: CheckTools
    folder: Path
    """Below it go all files."""
    keep_files: bool = False
    """Whether those of cases stay."""
    baseline: Baseline = "judged"
    """What the verifier does with the untouched environment: silent there, it was silenced by nobody."""
    verifications: int = 0
    verifying_sec: float = 0.0
    spent_sec: float = 0.0
    """How long agents and verifiers ran so far, without the time for which they waited for a processor."""
    longest_sec: float | None = None
    """How long a sandbox may be at work for one verification."""
    bench: StateBench = field(init=False)
    """Keeps sandboxes for the next verification while it is open."""
    _judged: dict[int, EndState] = field(default_factory=dict)
    """Every end state that was judged, by its identity: they have parts that cannot be compared fast."""
    _numbers: "count[int]" = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        self.bench = StateBench(self.tools.machinery)

    @property
    def rebuilt(self) -> int:
        """How often an end state was laid out that had been laid out before."""
        return max(0, self.bench.laid_out - len(self._judged))

    @property
    def round(self) -> Round:
        """The round whose end states are judged: the last one."""
        return rounds_of(self.task)[-1]

    def spec(self, agent: AgentOptions) -> TrialSpec:
        """A trial of an agent whose end state is kept."""
        options = self.tools.options.model_copy(update={"keep": "snapshot"})
        return TrialSpec(f"{self.task.id}.check.{next(self._numbers)}", self.task, self.digest, agent, options=options)

    async def place(self) -> Place:
        """The kind of sandbox that the task has. Raises TrialError or UsageError."""
        return await find_place(self.spec(AgentOptions(name="noop")), self.tools.machinery)

    async def run(self, options: AgentOptions, given: Agent | None = None) -> RanTrial:
        """Run a whole trial, with a `given` agent or the one that the options name."""
        machinery = self.tools.machinery.with_agent(options.title, given)
        for tries in range(1, _TRIES + 1):
            spec = self.spec(options)
            folder = self.new_folder()
            async with self._at_work():
                record = await run_trial(spec, machinery, folder)
            if record.failure is None or tries == _TRIES:
                break
        self._count(*record.verifier_runs)
        ran = [record.agent_result, *(step.agent_result for step in record.steps)]
        self.spent_sec += sum(_own_sec(each) for each in ran if each)
        return RanTrial(spec, record, folder, given)

    async def try_case(self, case: Case, end: EndState | None) -> CaseVerdict:
        """What the verifier says to a case; a case with a command needs no end state."""
        if case.command is not None:
            return await self._try_command(case, case.command)
        if end is None:
            return CaseVerdict(case.id, None, failure=f"the end state {case.state!r} cannot be judged again")
        return await self.judge(case, end)

    async def judge(self, case: Case, end: EndState) -> CaseVerdict:
        """What the verifier says to an end state with the edits of a case, under its conditions."""
        failure = ""
        self._judged[id(end)] = end
        for _ in range(_TRIES):
            folder = self.new_folder()
            try:
                async with self._at_work():
                    judged = await self.bench.judge(end, folder, case.edits, case.conditions)
            except (TrialError, UsageError, OSError) as error:
                if isinstance(error, OSError) and not is_shortage(error):
                    raise
                failure = f"{type(error).__name__}: {error}"
            else:
                self._count(judged.judgement.run)
                self.spent_sec += _own_sec(judged.agent_result) if judged.agent_result else 0.0
                return verdict_of_judged(case, judged, folder, self.tools.options.pass_threshold, self.baseline)
            finally:
                await self.drop(folder)
        return CaseVerdict(case.id, None, failure=failure)

    async def _try_command(self, case: Case, command: str) -> CaseVerdict:
        tree = self.new_folder() / "laid-out"
        removals = await asyncio.to_thread(lay_out, case.edits, tree)
        options = AgentOptions(name="command", label="check", command=command)
        ran = await self.run(options, CaseAgent("check", "\n".join(filter(None, (removals, command))), tree))
        verdict = verdict_of_trial(case.id, ran.record, ran.folder)
        for folder in (tree.parent, ran.folder):
            await self.drop(folder)
        return verdict

    def new_folder(self) -> Path:
        for number in self._numbers:
            folder = self.folder / str(number)
            with suppress(FileExistsError):  # from an earlier case whose files were kept
                folder.mkdir(parents=True)
                return folder
        raise AssertionError("counting never ends")

    async def drop(self, folder: Path) -> None:
        if not self.keep_files:
            with suppress(OSError):  # gone with the folder of the task
                await asyncio.to_thread(remove_tree, folder)

    @asynccontextmanager
    async def _at_work(self) -> AsyncIterator[None]:
        """Room on this machine, for no longer than is allowed. Raises OutOfTimeError."""
        async with self.tools.admission.place(memory_of(self.task, self.tools.options), None):
            try:
                async with asyncio.timeout(self.longest_sec) as limit:
                    yield
            except TimeoutError:
                if limit.expired():
                    self.spent_sec += self.longest_sec or 0.0
                    raise OutOfTimeError from None
                raise

    def _count(self, *runs: VerifierRun) -> None:
        self.verifications += len(runs)
        self.verifying_sec += sum(run.duration_sec for run in runs)
        self.spent_sec += sum(map(_own_sec, runs))
        self.tools.verified(len(runs))


def _own_sec(run: VerifierRun | AgentResult) -> float:
    """How long something ran, without the time for which others had the processors, as far as that is known."""
    return max(0.0, run.duration_sec - (run.cpu_wait_sec or 0.0))
