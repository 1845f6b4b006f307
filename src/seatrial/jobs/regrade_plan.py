"""What a regrade is going to do: which trials, by whose tests, and what it has judged already if it was interrupted.

Tests are those of the tasks as they are now, where they were or elsewhere, or taken from another folder. `regrade.py`
carries it out.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path

from seatrial.backends.named import check_backend
from seatrial.errors import DatasetNotFoundError, JobError, VerifierStageError
from seatrial.jobs.checks import check_images, check_variables
from seatrial.jobs.machinery import check_verifier_model
from seatrial.jobs.plan import TrialPlan
from seatrial.jobs.trust import require_own
from seatrial.model.base import JsonObject
from seatrial.model.job import LockedTask, TrialOptions
from seatrial.model.loaded_task import Task
from seatrial.model.record import Provenance, TrialRecord
from seatrial.sandbox.trust import client_trust
from seatrial.store.index import TrialEntry
from seatrial.store.job_store import JobStore, OpenRegrade, new_regrade, read_open_regrade
from seatrial.store.records import Census
from seatrial.tasks.layout import RUBRIC_FILE, TEST_SCRIPT, digest_folder
from seatrial.tasks.load import load_dataset, read_folder
from seatrial.tasks.outline import TaskOutline
from seatrial.trial.rounds import rounds_of, tests_below
from seatrial.verify.stage import digest_tests


@dataclass(frozen=True, slots=True)
class RegradeOptions:
    """What somebody asks of a regrade.

    `tests` is a folder to take tests from, `tasks` are paths below which tasks are now. `trials` are ids, None for all.
    `changes` are options of the verification that are to be others than the job's.
    """

    tests: Path | None = None
    tasks: tuple[Path, ...] = ()
    only_changed: bool = False
    repeats: int | None = None
    trials: Collection[str] | None = None
    changes: JsonObject = field(default_factory=dict)
    concurrent: int | None = None


GivenTests = Mapping[str | None, tuple[Path, ...]]
"""Folders of tests by the name of the round that they are for."""


@dataclass(frozen=True, slots=True)
class RegradedTask:
    """A task as it is now, the digest of its folder, the tests that are given for it, and the digests of all tests."""

    task: Task
    digest: str
    given: GivenTests = field(default_factory=dict)
    tests_digests: Mapping[str | None, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PreparedRegrade:
    """A regrade that can be carried out: the trials that are left to be judged, and what the user should know.

    `earlier` are those that it has judged before it was interrupted.
    """

    store: JobStore
    asked: RegradeOptions
    regrade: OpenRegrade
    trials: Sequence[TrialEntry]
    tasks: Mapping[str, RegradedTask]
    options: TrialOptions
    plans: Mapping[str, TrialPlan]
    earlier: Sequence[TrialEntry] = ()
    notices: Sequence[str] = ()


def prepare_regrade(folder: Path, asked: RegradeOptions, *, trust_job: bool = False) -> PreparedRegrade:
    """Plan to judge the trials of a stored job again.

    Raises UsageError: the job is somebody else's and `trust_job` is not said, a task or its tests are not there, an
    option makes no sense, or nothing is chosen.
    """
    store = JobStore.open(folder)
    if store.file.driver == "environment":
        raise JobError(f"{folder}: these are rollouts of an environment, whose rewards may not be its verifiers' alone")
    if store.file.driver == "import":
        raise JobError(f"{folder}: was imported, and neither end states nor tests came with it that could be judged")
    if not trust_job:
        require_own(store, "regrade")
    elif not store.is_own:
        store.make_own()
    options = store.file.spec.trial.model_copy(update=asked.changes)
    census = store.census()
    chosen = _chosen(store, census, asked)
    needed = {entry.task_id for entry in chosen}
    tasks = find_tasks([task for task in store.file.tasks if task.id in needed], asked.tasks, asked.tests)
    notices = [f"{store.explain(found)}; it is left alone" for found in census.uncounted if found.newer]
    notices += [*_check(store, tasks, options), *_changed_tasks(store, tasks, chosen)]
    key = _key(asked, tasks, chosen)
    begun = read_open_regrade(store.path)
    regrade = begun if begun and begun.key == key else new_regrade(key)
    if begun and begun is not regrade:
        notices.append("a regrade that was interrupted had other tests, options or trials; it is not gone on with")
    earlier = [entry for entry in chosen if begun is regrade and _is_done(store, entry, regrade)]
    done = {entry.trial_id for entry in earlier}
    left = [entry for entry in chosen if entry.trial_id not in done]
    if asked.only_changed:
        left = [entry for entry in left if _tests_changed(store, entry, tasks[entry.task_id])]
    plans = {plan.trial_id: plan for plan in _plans(store, left)}
    return PreparedRegrade(store, asked, regrade, left, tasks, options, plans, earlier, notices)


def tests_differ(record: TrialRecord, digests: Mapping[str | None, str]) -> bool:
    """Whether a record rests on other tests than those of some digests, by the names of rounds."""
    rests_on: dict[str | None, Provenance | None] = {step.name: step.provenance for step in record.steps}
    if not record.steps:
        rests_on = {None: record.provenance}
    judged = {name: provenance.tests_digest for name, provenance in rests_on.items() if provenance}
    return not judged or any(digests.get(name) != digest for name, digest in judged.items())


def _chosen(store: JobStore, census: Census, asked: RegradeOptions) -> list[TrialEntry]:
    newer = census.newer
    entries = [entry for entry in census.entries if asked.trials is None or entry.trial_id in asked.trials]
    entries = [entry for entry in entries if entry.trial_id not in newer]
    if not entries:
        raise JobError(f"{store.path}: there is no finished trial to judge again, or none is as asked for")
    return entries


def _check(store: JobStore, tasks: Mapping[str, RegradedTask], options: TrialOptions) -> list[str]:
    check_backend(options.backend)
    if options.ca_file:
        client_trust(options.ca_file)
    check_verifier_model(options)
    every = [each.task for each in tasks.values()]
    check_images(every, options)
    return check_variables({task.id: task.config for task in every}, (), options, store.file.spec.model.upstream)


def _changed_tasks(store: JobStore, tasks: Mapping[str, RegradedTask], chosen: Sequence[TrialEntry]) -> Iterator[str]:
    """What is not as it was when the job began, besides tests that are changed on purpose."""
    then = {task.id: task.digest for task in store.file.tasks}
    example = {entry.task_id: entry.trial_id for entry in chosen}
    for task_id, found in tasks.items():
        if found.given or found.digest == then[task_id]:
            continue
        first = store.revisions(example[task_id])[0].record
        tests = "among them its tests" if tests_differ(first, found.tests_digests) else "though not its tests"
        yield f"task {task_id}: its files have changed since the job began, {tests}"


def _key(asked: RegradeOptions, tasks: Mapping[str, RegradedTask], chosen: Sequence[TrialEntry]) -> str:
    """A digest of all that makes this regrade another one than one with other tests, options or trials."""
    tests = {
        task_id: sorted((name or "", digest) for name, digest in each.tests_digests.items())
        for task_id, each in sorted(tasks.items())
    }
    said = [
        version("seatrial"),
        [entry.trial_id for entry in chosen],
        {task_id: (each, tasks[task_id].digest) for task_id, each in tests.items()},
        asked.changes,
        asked.repeats,
        asked.only_changed,
    ]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _is_done(store: JobStore, entry: TrialEntry, regrade: OpenRegrade) -> bool:
    how = store.revisions(entry.trial_id)[-1].record.regrade if entry.revision else None
    return how is not None and how.id == regrade.id


def _tests_changed(store: JobStore, entry: TrialEntry, task: RegradedTask) -> bool:
    return tests_differ(store.revisions(entry.trial_id)[-1].record, task.tests_digests)


def _plans(store: JobStore, entries: Sequence[TrialEntry]) -> Iterator[TrialPlan]:
    agents = {agent.title: agent for agent in store.file.spec.agents}
    for entry in entries:
        yield TrialPlan(entry.trial_id, entry.task_id, agents[entry.agent], entry.attempt)


# Whose tests.


def find_tasks(locked: Sequence[LockedTask], paths: Sequence[Path], tests: Path | None) -> dict[str, RegradedTask]:
    """The tasks of a job by id, with the tests to run. Tasks below `paths` go before those where they were.

    Raises JobError that names every task that is not there or has no tests, DatasetNotFoundError for a path.
    """
    moved = [outline for path in paths for outline in load_dataset(path).outlines]
    outlines = {task.id: _outline(task, moved) for task in locked}
    gone = [f"  task {task.id}: is not at {task.root}" for task in locked if outlines[task.id] is None]
    if gone:
        raise JobError(
            "\n".join(["these tasks cannot be read any more:", *gone, "-p FOLDER says where they are now, or choose"])
            + " other trials by --where"
        )
    tasks = {task_id: outline.task() for task_id, outline in outlines.items() if outline}
    given = _given(tests, tasks) if tests else {}
    return {task_id: _with_digests(task, given.get(task_id, {})) for task_id, task in tasks.items()}


def _outline(task: LockedTask, moved: Iterable[TaskOutline]) -> TaskOutline | None:
    if elsewhere := _of_id(task.id, moved):
        return replace(elsewhere, id=task.id)
    found = read_folder(Path(task.root), task.id)
    return found if isinstance(found, TaskOutline) else None


def _of_id(task_id: str, outlines: Iterable[TaskOutline]) -> TaskOutline | None:
    """The task of an id; else the only one whose folder has its name, for ids may begin with folders above."""
    every = list(outlines)
    exact = [outline for outline in every if outline.id == task_id]
    found = exact or [outline for outline in every if outline.root.name == task_id.rpartition("/")[2]]
    return found[0] if len(found) == 1 else None


def _given(folder: Path, tasks: Mapping[str, Task]) -> dict[str, GivenTests]:
    if not folder.is_dir():
        raise JobError(f"--tests {folder}: there is no such folder")
    if any((folder / name).is_file() for name in (TEST_SCRIPT, RUBRIC_FILE)):
        return _for_one_task(folder.absolute(), tasks)
    try:
        outlines = load_dataset(folder).outlines
    except DatasetNotFoundError:
        raise JobError(f"--tests {folder}: holds neither a test.sh, nor a rubric.toml, nor tasks with tests") from None
    found = {task_id: _of_id(task_id, outlines) for task_id in tasks}
    given: dict[str, GivenTests] = {
        task_id: {
            round_.name: tests_below(outline.root.absolute(), round_.name) for round_ in rounds_of(tasks[task_id])
        }
        for task_id, outline in found.items()
        if outline
    }
    if missing := sorted(task_id for task_id in tasks if not all(given.get(task_id, {None: ()}).values())):
        raise JobError(f"--tests {folder}: has no tests for {', '.join(missing)}; choose other trials by --where")
    return given


def _for_one_task(folder: Path, tasks: Mapping[str, Task]) -> dict[str, GivenTests]:
    if len(tasks) > 1:
        raise JobError(
            f"--tests {folder}: is the tests/ of one task, and the trials are of {len(tasks)}; name a folder of tasks, "
            "or choose the trials of one task by --where task=…"
        )
    (task,) = tasks.values()
    if task.steps:
        raise JobError(f"--tests {folder}: task {task.id} has steps with tests of their own; name a task's folder")
    return {task.id: {None: (folder,)}}


def _with_digests(task: Task, given: GivenTests) -> RegradedTask:
    rounds = [replace(round_, given=given.get(round_.name, ())) for round_ in rounds_of(task)]
    try:
        digests = {round_.name: digest_tests(round_.tests()) for round_ in rounds}
    except VerifierStageError as error:
        raise JobError(f"task {task.id}: {error}") from None
    return RegradedTask(task, digest_folder(task.root), given, digests)
