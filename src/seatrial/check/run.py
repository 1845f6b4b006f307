"""Checking many tasks: several side by side, so many verifications at once over all of them, each result kept at once.

What has a result already, for the same task and the same options, is not done again.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from seatrial.check.battery import BatteryPlan, cases_of, check_task
from seatrial.check.case_agent import lay_out
from seatrial.check.cases import Case, CaseVerdict
from seatrial.check.examiner import CheckTools, Examiner
from seatrial.check.folder import CheckFolder
from seatrial.check.prepare import TaskToCheck
from seatrial.check.states import make_states
from seatrial.check.subject import describe
from seatrial.concurrency import side_by_side
from seatrial.errors import HostUnsupportedError, UsageError
from seatrial.jobs.admission import Admission, machine_memory_mb
from seatrial.jobs.enforceable import check_enforceable
from seatrial.jobs.local import affordable
from seatrial.jobs.machinery import open_machinery
from seatrial.model.check import TaskCheck
from seatrial.model.job import TrialOptions
from seatrial.sandbox.scratch import Scratch, sweep_scratch
from seatrial.trial.events import Event, Notice

_STATES = ("V1/", "V2/untouched", "V3/")


@dataclass(frozen=True, slots=True)
class Verified:
    """So many verifiers have been run."""

    runs: int


Told = TaskCheck | Notice | Verified
Listener = Callable[[Told], None]


@dataclass(frozen=True, slots=True)
class CheckRun:
    """What to check and how. `concurrent` verifications run at once, over all tasks."""

    tasks: tuple[TaskToCheck, ...]
    options: TrialOptions
    plan: BatteryPlan
    concurrent: int


async def run_checks(run: CheckRun, folder: CheckFolder, tell: Listener) -> list[TaskCheck]:
    """Check every task; returns all results in the order of the tasks, earlier ones included.

    Raises UsageError when the machine cannot do what the tasks ask for, StoreError when results cannot be kept. When
    cancelled, what runs is torn down, and what was finished is kept.
    """
    results: dict[str, TaskCheck] = {}
    todo: list[tuple[TaskToCheck, str]] = []

    def keep(result: TaskCheck) -> None:
        results[result.task] = result
        tell(result)

    for each in run.tasks:
        digest = each.digest()
        if earlier := folder.load(each.outline.id, digest, run.plan.options):
            keep(earlier)
        else:
            todo.append((each, digest))
    if todo:
        async with open_tools(run, tell) as tools:
            await _check_all(run, iter(todo), tools, folder, keep)
    return [results[each.outline.id] for each in run.tasks]


async def _check_all(
    run: CheckRun,
    todo: Iterator[tuple[TaskToCheck, str]],
    tools: CheckTools,
    folder: CheckFolder,
    keep: Callable[[TaskCheck], None],
) -> None:
    async def work() -> None:
        for each, digest in todo:
            with Scratch() as scratch:
                examiner = Examiner(each.outline.task(), digest, tools, scratch)
                result = await check_task(examiner, run.plan, each.name)
            await asyncio.to_thread(folder.store, result)
            keep(result)

    # Fewer tasks than verifications at once: each then gets through its cases sooner, within its own time.
    await side_by_side(work, max(1, run.concurrent // 2))


async def try_one(run: CheckRun, case_id: str, folder: Path, tell: Listener) -> tuple[Case | None, CaseVerdict]:
    """Try one case of the one task that a run is about; the verifier's files and edited ones stay in `folder`.

    A case that judges an end state as it is has only a verdict.

    Raises UsageError for a case that the task does not have, and TrialError where there is no sandbox.
    """
    task, digest = run.tasks[0].outline.task(), run.tasks[0].digest()
    async with open_tools(run, tell) as tools:
        is_state = case_id.startswith(_STATES)
        with Scratch() as scratch:
            maker = Examiner(task, digest, tools, folder if is_state else scratch, keep_files=is_state)
            states = await make_states(maker)
            for state in states.made.values():
                if (found := state.whole or state.verdict).case == case_id:
                    return None, found
            subject = describe(task, run.tasks[0].name, states, run.options, run.plan.words, run.plan.repeats)
            lists = [cases_of(check, subject) for check in run.plan.checks]
            known = {case.id: case for each in lists if not isinstance(each, Exception) for case in each}
            if case_id not in known:
                there = [*known, *(state.verdict.case for state in states.made.values())]
                raise UsageError(_unknown_case(case_id, there, states.missing))
            case = known[case_id]
            made = states.made.get(case.state)
            maker.folder, maker.keep_files = folder, True
            verdict = await maker.try_case(case, made.end if made else None)
            await asyncio.to_thread(lay_out, case.edits, maker.new_folder() / "edited")
            return case, verdict


def _unknown_case(case: str, known: Sequence[str], missing: Mapping[str, str]) -> str:
    alike = [each for each in known if each.partition("/")[0] == case.partition("/")[0]]
    why = "".join(f"; {name}: {reason}" for name, reason in missing.items() if name in case)
    return f"--case {case}: the task has no such case{why}; there are for example {', '.join((alike or known)[:8])}"


@asynccontextmanager
async def open_tools(run: CheckRun, tell: Listener) -> AsyncIterator[CheckTools]:
    """What all checks need, for the length of a block. Raises UsageError, TrialError."""
    options = run.options

    def notice(event: Event) -> None:
        if isinstance(event, Notice):
            tell(event)

    await sweep_scratch()
    async with open_machinery(options.backend, options, say=lambda line: tell(Notice(line))) as machinery:
        capabilities = await machinery.backend.probe()
        if capabilities.isolation != "namespaces":
            raise HostUnsupportedError(
                f"the {capabilities.backend} backend cannot lay out end states: its sandboxes have this machine's own "
                "files, which checks would change; use embedded, docker or podman"
            )
        check_enforceable((each.outline.task() for each in run.tasks), options, capabilities)
        admission = Admission(affordable(run.concurrent, notice), machine_memory_mb())
        yield CheckTools(machinery, admission, options, lambda runs: tell(Verified(runs)))
