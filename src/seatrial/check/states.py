"""The end states of a task, each made once and judged many times: untouched, the solution's, and golden answers."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from seatrial.check.cases import ORACLE, UNTOUCHED, AcceptedAnswer, Case, CaseVerdict, Subject, case_id
from seatrial.check.examiner import Examiner, RanTrial
from seatrial.check.golden import (
    FAIL,
    LEAST_PASS,
    PASS,
    START_SCRIPT,
    GoldenAnswer,
    find_golden,
    golden_answers,
    kept_answers,
    least_accepted,
)
from seatrial.check.judging import CaseAgent, verdict_of_step, verdict_of_trial
from seatrial.errors import UsageError
from seatrial.model.check import CheckId
from seatrial.model.job import AgentOptions, TrialOptions
from seatrial.model.loaded_task import Task
from seatrial.model.record import FileChanges
from seatrial.tasks.layout import read_file, walk
from seatrial.trial.end_state import EndState
from seatrial.trial.place import Place
from seatrial.trial.repeats import KeptTrial, kept_verification
from seatrial.trial.rounds import rounds_of
from seatrial.trial.verification import Verification
from seatrial.trial.work import DID_NOTHING, Work

_NOOP = AgentOptions(name="noop")
_ORACLE = AgentOptions(name="oracle")
_CHECKS: dict[str, CheckId] = {ORACLE: "V1", UNTOUCHED: "V2"}


@dataclass(frozen=True, slots=True)
class CheckState:
    """One end state and the verdict on it."""

    verdict: CaseVerdict
    end: EndState | None = None
    """None where it cannot be judged again."""
    whole: CaseVerdict | None = None
    """The verdict on all steps of a task that has some."""
    answers: tuple[AcceptedAnswer, ...] = ()
    """What lies in it, if it is accepted."""
    fixed: str | None = None
    """Why it cannot be judged again."""
    accepted: bool = False
    """Whether its author and the verifier agree that it is right."""


@dataclass(eq=False, slots=True)
class TaskStates:
    """The end states of a task by name; those that could not be made are `missing`, with the reason."""

    made: dict[str, CheckState] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    @property
    def why_no_answer(self) -> str | None:
        """Why there is no accepted end state to try variations of; None where there is one."""
        accepted = [state for state in self.made.values() if state.accepted and state.end]
        if any(state.answers for state in accepted):
            return None
        if any(state.end and state.end.live for state in accepted):
            failing = any(name.startswith(FAIL) for name in self.made)
            return None if failing else "it is a running service, and there is no golden answer that is to fail"
        if accepted:
            return "the accepted end state has no small file of its own below the working directory"
        hoped = {name: state for name, state in self.made.items() if name.startswith((ORACLE, PASS))}
        reasons = [f"{name}: {state.fixed}" for name, state in hoped.items() if state.fixed]
        return "; ".join(reasons) or "no golden answer passes, and no solution"

    @property
    def answers(self) -> tuple[AcceptedAnswer, ...]:
        """All accepted answers, outputs of the task before other files, each content once."""
        every = [answer for name in sorted(self.made, key=_rank) for answer in self.made[name].answers]
        unlike = {(answer.path, answer.content): answer for answer in reversed(every)}
        chosen = [answer for answer in every if unlike[answer.path, answer.content] is answer]
        outputs = {state.answers[0].path for state in self.made.values() if state.answers}
        return tuple(sorted(chosen, key=lambda answer: answer.path not in outputs))


def state_case(name: str) -> str:
    return case_id(_CHECKS.get(name, "V3"), name)


async def make_states(examiner: Examiner) -> TaskStates:
    """Make all end states of a task side by side. One that cannot be made is no reason to go without the others.

    Raises TrialError or UsageError where no sandbox can be had for the task at all.
    """
    maker = _Maker(examiner, await examiner.place())
    golden = find_golden(examiner.task.root, maker.place.workdir, examiner.round.judged.output.path)
    states = TaskStates(remarks=golden.remarks)
    # What nobody has touched comes first: only then is it known what silence of the verifier means.
    await maker.add(states, UNTOUCHED, maker.untouched)
    async with asyncio.TaskGroup() as group:
        group.create_task(maker.add(states, ORACLE, maker.oracle))
        for answer in golden.answers:
            group.create_task(maker.add(states, answer.name, partial(maker.golden, answer)))
    states.made = {name: states.made[name] for name in sorted(states.made, key=_rank)}
    return states


class _CannotBeMadeError(Exception):
    """Why there is no such state."""


@dataclass(frozen=True, slots=True)
class _Maker:
    """Makes the end states of one task."""

    examiner: Examiner
    place: Place

    async def add(self, states: TaskStates, name: str, make: Callable[[], Awaitable[CheckState]]) -> None:
        """Make a state, or note why it cannot be made."""
        try:
            states.made[name] = await make()
        except _CannotBeMadeError as error:
            states.missing[name] = str(error)

    async def untouched(self) -> CheckState:
        """The environment in which nobody did anything; of a task with steps, also the trial of one who does not."""
        end = EndState(self._idle())
        verdict = await self._judged(UNTOUCHED, end)
        if verdict.evaluation and not verdict.evaluation.validity.verifier_completed:
            self.examiner.baseline = "silent"
            verdict = replace(verdict, outcome="verifier_error")
        whole = None
        if self.examiner.task.steps:
            ran = await self.examiner.run(_NOOP)
            whole = verdict_of_trial(state_case(UNTOUCHED), ran.record, ran.folder)
        return CheckState(verdict, end, whole if whole and not whole.failure else None)

    async def oracle(self) -> CheckState:
        task = self.examiner.task
        scripts = [step.layout.solution_script for step in task.steps] or [task.layout.solution_script]
        if not all(scripts):
            raise _CannotBeMadeError("a step has no solution" if task.steps else "the task has no solution")
        return await self._of_trial(ORACLE, await self.examiner.run(_ORACLE))

    async def golden(self, golden: GoldenAnswer) -> CheckState:
        """What an author ships as an answer: laid over the untouched environment, and started where it is a service."""
        tree = await asyncio.to_thread(_as_tree, golden, self.examiner.new_folder())
        if golden.started:
            options = AgentOptions(name="command", label=golden.name, command=START_SCRIPT)
            agent = CaseAgent(golden.name, f"sh /{START_SCRIPT}", tree)
            return await self._of_trial(golden.name, await self.examiner.run(options, agent))
        end = EndState(self._idle(), files=tree)
        verdict = await self._judged(golden.name, end)
        accepted = golden.name.startswith(PASS) and (verdict.reward or 0.0) >= LEAST_PASS
        output = self.examiner.round.judged.output
        answers = golden_answers(golden, output, verdict.reward or 0.0) if accepted else []
        return CheckState(verdict, end, answers=tuple(answers), accepted=accepted)

    async def _of_trial(self, name: str, ran: RanTrial) -> CheckState:
        case, record = state_case(name), ran.record
        whole = verdict_of_trial(case, record, ran.folder)
        if whole.failure:
            raise _CannotBeMadeError(whole.failure)
        if not record.steps:
            return await self._kept(name, ran, CheckState(whole))
        reached = len(record.steps) == len(self.examiner.task.steps)
        verdict = verdict_of_step(case, record.steps[-1], record, ran.folder) if reached else None
        if verdict is None:
            return CheckState(whole, whole=whole, fixed="its last step was not reached")
        return await self._kept(name, ran, CheckState(verdict, whole=whole))

    async def _kept(self, name: str, ran: RanTrial, state: CheckState) -> CheckState:
        """The state of a trial with its end state, as far as one was kept from which it can be judged again."""
        kept, round_ = KeptTrial(ran.record, ran.folder), self.examiner.round
        archive = kept.archive(round_)
        try:
            verification = kept_verification(ran.spec, round_, self.place, kept, ran.folder)
        except UsageError as error:
            return replace(state, fixed=str(error))
        if not archive.is_file():
            return replace(state, fixed="its end state could not be kept")
        end = EndState(verification, archive=archive)
        if verification.work.survivors and (await self._judged(name, end)).reward != state.verdict.reward:
            end = EndState(verification, live=ran.spec, agent=ran.agent)  # it needs what it left running
        reward = state.verdict.reward or 0.0
        accepted = name.startswith((ORACLE, PASS)) and reward >= self._least(name)
        answers: list[AcceptedAnswer] = []
        if accepted and not end.live:  # a service has read its files already, and wrote its own port and number
            output = round_.judged.output
            answers = await asyncio.to_thread(kept_answers, archive, name, output, self.place.workdir, reward)
        return replace(state, end=end, answers=tuple(answers), accepted=accepted)

    def _least(self, name: str) -> float:
        if name != ORACLE:
            return LEAST_PASS
        return least_accepted(self.examiner.task, self.examiner.tools.options.pass_threshold)

    def _idle(self) -> Verification:
        """The verification of an agent that did nothing."""
        folder = self.examiner.folder
        nothing = FileChanges()
        work = Work(None, nothing, nothing, (), (), folder / "artifacts")
        return Verification(self.examiner.spec(_NOOP), self.examiner.round, self.place, folder, DID_NOTHING, work)

    async def _judged(self, name: str, end: EndState) -> CaseVerdict:
        case = Case(state_case(name), _CHECKS.get(name, "V3"), name)
        verdict = await self.examiner.judge(case, end)
        if verdict.failure:
            raise _CannotBeMadeError(verdict.failure)
        return verdict


def _as_tree(golden: GoldenAnswer, folder: Path) -> Path:
    """A folder to be laid over `/` in which a golden answer lies where it belongs."""
    if golden.target == "/":
        return golden.source
    place = folder / golden.target.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    if golden.source.is_dir():
        shutil.copytree(golden.source, place, symlinks=True)
    else:
        shutil.copyfile(golden.source, place)
    return folder


def _rank(name: str) -> tuple[bool, str]:
    return name != ORACLE, name


# The task as checks see it.

_MOST_BYTES = 512 * 2**10
_MOST_TOGETHER = 8 * 2**20


def describe(
    task: Task, name: str, states: TaskStates, options: TrialOptions, words: Sequence[str], repeats: int
) -> Subject:
    round_ = rounds_of(task)[-1]
    return Subject(
        task=task,
        name=name,
        instruction=round_.instruction().decode(errors="replace"),
        tests=small_files(round_.tests()),
        states={name: state.verdict for name, state in states.made.items()},
        answers=states.answers,
        pass_threshold=options.pass_threshold,
        repeats=repeats,
        options=words,
        trials={name: state.whole for name, state in states.made.items() if state.whole},
        missing=states.missing,
        remarks=states.remarks,
    )


def small_files(folders: Sequence[Path]) -> Mapping[str, bytes]:
    """The files below folders that are laid over each other, without large ones; and not too many of them."""
    found: dict[str, bytes] = {}
    room = _MOST_TOGETHER
    for folder in folders:
        for relative in sorted(walk(str(folder))[0]):
            path = folder / relative
            size = path.lstat().st_size
            if size > _MOST_BYTES or size > room:
                continue
            found[relative] = read_file(path, _MOST_BYTES)[0]
            room -= size
    return found
