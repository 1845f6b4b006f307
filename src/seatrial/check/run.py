"""Checking many tasks: several side by side, so many verifications at once over all of them, each result kept at once.

What has a result already, for the same task and the same options, is not done again.
"""

import asyncio
import hashlib
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from seatrial.backends.named import check_backend
from seatrial.check.battery import BatteryPlan, cases_of, check_task
from seatrial.check.cases import Case, CaseVerdict
from seatrial.check.examiner import CheckTools, Examiner
from seatrial.check.judging import lay_out
from seatrial.check.states import describe, make_states
from seatrial.concurrency import run_all
from seatrial.errors import HostUnsupportedError, JobError, UsageError
from seatrial.jobs.admission import Admission, machine_memory_mb
from seatrial.jobs.checks import check_enforceable, check_images, check_variables
from seatrial.jobs.local import affordable
from seatrial.jobs.machinery import check_verifier_model, open_machinery
from seatrial.jobs.select import NO_KEY_FOR_SOLUTION, choose_tasks, left_out_notices, nothing_to_run, select_tasks
from seatrial.model.base import to_json, trial_stem
from seatrial.model.check import TaskCheck
from seatrial.model.events import Notice, Observer
from seatrial.model.job import JobSpec, LeftOut, TrialOptions
from seatrial.sandbox.runs import Scratch, sweep_scratch
from seatrial.sandbox.trust import client_trust
from seatrial.store.files import locked, replace_file, storing
from seatrial.tasks.layout import TaskFiles, digest_folder
from seatrial.tasks.outline import TaskOutline
from seatrial.untrusted.files import read_file

# Which tasks are checked, and what is refused before anything starts, as by a run.

AGENTS = ("oracle", "noop")
"""Who works on the tasks while they are checked."""


@dataclass(frozen=True, slots=True)
class TaskToCheck:
    """A task, and what a user calls it on the command line."""

    outline: TaskOutline
    name: str
    files: TaskFiles | None = None

    def digest(self) -> str:
        """The digest of its files. Raises OSError or UsageError."""
        return digest_folder(self.outline.root, self.files)


@dataclass(frozen=True, slots=True)
class ChosenTasks:
    """The tasks to check in order, those that are left out, and what the user should know."""

    tasks: tuple[TaskToCheck, ...]
    left_out: tuple[LeftOut, ...] = ()
    notices: tuple[str, ...] = ()


def choose(spec: JobSpec, given: Sequence[str]) -> ChosenTasks:
    """Find the tasks that a spec names; `given` are its paths as the user wrote them.

    Raises UsageError for what a run refuses: no task, unknown backends, images and variables that no task may have.
    """
    check_backend(spec.trial.backend)
    if spec.trial.ca_file:
        client_trust(spec.trial.ca_file)
    check_verifier_model(spec.trial)
    selection = select_tasks(spec)
    choice = choose_tasks(selection, spec)
    keyless = {each.task: each for each in choice.left_out if each.reason == NO_KEY_FOR_SOLUTION}
    fit = [task for task in choice.fit if task.id not in keyless]
    if not fit:
        raise JobError(nothing_to_run(choice.left_out))
    check_images(fit, spec.trial)
    denied = check_variables({task.id: task.config for task in fit}, spec.agents, spec.trial)
    refused = (each for each in choice.left_out if each.kind != "declined")
    left_out = (*selection.unreadable, *refused, *keyless.values())
    names = dict(zip(spec.tasks, given, strict=True))
    tasks = tuple(TaskToCheck(task, _called(task.root, names), selection.files.get(task.root)) for task in fit)
    return ChosenTasks(tasks, left_out, (*selection.notices, *left_out_notices(left_out), *denied))


def _called(root: Path, names: Mapping[str, str]) -> str:
    """A task's folder as a user would write it, beginning with what they wrote."""
    for whole, given in names.items():
        if root.is_relative_to(whole):
            name = os.path.normpath(os.path.join(given, os.path.relpath(root, whole)))  # noqa: PTH118 - as it was named
            return f"./{name}" if name.startswith("-") else name  # it would be taken for an option
    return str(root)


# The folder of results: one file per task, there as a whole or not at all.

_MOST_BYTES = 64 * 2**20


def digest_options(**options: Any) -> str:
    """A digest of all that results depend on besides the task."""
    return hashlib.sha256(json.dumps(options, sort_keys=True).encode()).hexdigest()


class CheckFolder:
    """Keeps the results of checks."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Make the folder and hold its lock. Raises JobError when another run has it, StoreError without a folder."""
        with storing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        with locked(self.path):
            yield

    def load(self, task_id: str, digest: str, options: str) -> TaskCheck | None:
        """The result for a task that is still the same, under the same options; None where it is to be made.

        A result that cannot be read is made anew. So is one without a grade: what was in the way may be gone.
        """
        try:
            found = TaskCheck.model_validate_json(read_file(self._file(task_id), _MOST_BYTES))
        except (OSError, ValidationError):
            return None
        same = (found.task, found.digest, found.options) == (task_id, digest, options)
        return found if same and found.grade is not None else None

    def store(self, check: TaskCheck) -> None:
        """Keep a result in place of an earlier one. Raises StoreError."""
        file = self._file(check.task)
        with storing(file):
            file.parent.mkdir(exist_ok=True)
            replace_file(file, to_json(check))

    def _file(self, task_id: str) -> Path:
        before, after = trial_stem(task_id, "check")
        return self.path / "tasks" / f"{before}{after.lstrip('.')}{'.' if after else ''}json"


_STATES = ("V1/", "V2/untouched", "V3/")


@dataclass(frozen=True, slots=True)
class Verified:
    """So many verifiers have been run."""

    runs: int


Told = TaskCheck | Notice | Verified


@dataclass(frozen=True, slots=True)
class CheckRun:
    """What to check and how. `concurrent` verifications run at once, over all tasks."""

    tasks: tuple[TaskToCheck, ...]
    options: TrialOptions
    plan: BatteryPlan
    concurrent: int


async def run_checks(run: CheckRun, folder: CheckFolder, tell: Observer[Told]) -> list[TaskCheck]:
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
            await _check_all(run, todo, tools, folder, keep)
    return [results[each.outline.id] for each in run.tasks]


async def _check_all(
    run: CheckRun,
    todo: Sequence[tuple[TaskToCheck, str]],
    tools: CheckTools,
    folder: CheckFolder,
    keep: Callable[[TaskCheck], None],
) -> None:
    async def work(task: tuple[TaskToCheck, str]) -> TaskCheck:
        each, digest = task
        with Scratch() as scratch:
            examiner = Examiner(each.outline.task(), digest, tools, scratch)
            result = await check_task(examiner, run.plan, each.name)
        await asyncio.to_thread(folder.store, result)
        return result

    # Fewer tasks than verifications at once: each then gets through its cases sooner, within its own time.
    await run_all(todo, work, max(1, run.concurrent // 2), lambda _, result: keep(result))


async def try_one(run: CheckRun, case_id: str, folder: Path, tell: Observer[Told]) -> tuple[Case | None, CaseVerdict]:
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
async def open_tools(run: CheckRun, tell: Observer[Told]) -> AsyncIterator[CheckTools]:
    """What all checks need, for the length of a block. Raises UsageError, TrialError."""
    options = run.options

    await sweep_scratch()
    async with open_machinery(options.backend, options, observe=tell) as machinery:
        capabilities = await machinery.backend.probe()
        if capabilities.isolation != "namespaces":
            raise HostUnsupportedError(
                f"the {capabilities.backend} backend cannot lay out end states: its sandboxes have this machine's own "
                "files, which checks would change; use embedded, docker or podman"
            )
        check_enforceable((each.outline.task() for each in run.tasks), options, capabilities)
        admission = Admission(affordable(run.concurrent, tell), machine_memory_mb())
        yield CheckTools(machinery, admission, options, lambda runs: tell(Verified(runs)))
