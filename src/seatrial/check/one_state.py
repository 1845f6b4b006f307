"""One end state judged as often as one likes, for an author who writes tests: untouched, with files, or kept.

Which kind a path means is seen by what lies there: an archive is a snapshot, a folder with a record is a trial, and any
other folder has files to lay over the untouched environment, with a script to start them if they are a service.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from seatrial.check.golden import START_SCRIPT
from seatrial.check.judging import CaseAgent
from seatrial.errors import UsageError
from seatrial.jobs.machinery import open_machinery
from seatrial.model.job import AgentOptions, JobSpec, TrialOptions
from seatrial.model.loaded_task import Task
from seatrial.model.record import FileChanges, TrialRecord
from seatrial.sandbox.api import open_sandbox
from seatrial.scoring.text import note, with_finding
from seatrial.store.drafts import RECORD
from seatrial.store.files import JOB
from seatrial.store.job_store import JobStore
from seatrial.store.records import MAX_RECORD_BYTES
from seatrial.tasks.layout import digest_folder
from seatrial.trial.end_state import EndState, Judged, StateBench
from seatrial.trial.judge import score
from seatrial.trial.place import Place, find_place
from seatrial.trial.repeats import KeptTrial, judge_kept, kept_verification
from seatrial.trial.rounds import Round, rounds_of
from seatrial.trial.snapshot import lay_out_snapshot
from seatrial.trial.spec import Machinery, TrialSpec
from seatrial.trial.verification import Verification
from seatrial.trial.work import DID_NOTHING, Work
from seatrial.untrusted.files import read_file

_NAMED = 5
_KEPT_AFTER = (
    "processes of the agent ran on while it was judged; they are not here, and files are as they left them by then"
)
StateKind = Literal["untouched", "files", "snapshot", "trial"]
_NOBODY = AgentOptions(name="noop")
_STARTED = AgentOptions(name="command", label="files", command=START_SCRIPT)
_OF_JOB = (
    "image",
    "image_map",
    "image_fallback",
    "build",
    "isolation",
    "trust",
    "verdict",
    "reward_policy",
    "solution",
)


@dataclass(frozen=True, slots=True)
class StateSource:
    """Where an end state comes from. `job` is what this user's own job says about the trial it is of."""

    kind: StateKind
    path: Path | None = None
    trial: KeptTrial | None = None
    job: JobSpec | None = None

    @property
    def script(self) -> bool:
        """Whether its files have to be started, as those of a service."""
        return self.kind == "files" and self.path is not None and (self.path / START_SCRIPT).is_file()

    @property
    def options(self) -> Mapping[str, Any]:
        """What the job says about images and verdicts, which an end state can be judged again by."""
        said = self.job.trial.model_dump(mode="json", exclude_unset=True) if self.job else {}
        return {name: value for name, value in said.items() if name in _OF_JOB}

    @property
    def agent(self) -> AgentOptions:
        """The agent whose state it is, which may have brought a layer to the image."""
        agents = self.job.agents if self.job and self.trial else ()
        return next((each for each in agents if self.trial and each.title == self.trial.record.agent.name), _NOBODY)


def find_source(path: Path | None) -> StateSource:
    """What a path means. Raises UsageError for one that is nothing of it."""
    if path is None:
        return StateSource("untouched")
    if path.is_file():
        beside = path.parent / RECORD
        return _of_trial(path.parent) if beside.is_file() else StateSource("snapshot", path)
    if (path / RECORD).is_file():
        return _of_trial(path)
    if (path / JOB).is_file():
        raise UsageError(f"{path}: is the folder of a job; name one of its trials, such as {path}/trials/ID")
    if path.is_dir():
        return StateSource("files", path)
    raise UsageError(
        f"{path}: no end state is there; name a folder whose files lie as below /, a snapshot.tar.zst, or the folder "
        "of a trial, such as jobs/first/trials/ID"
    )


def _of_trial(folder: Path) -> StateSource:
    try:
        record = TrialRecord.model_validate_json(read_file(folder / RECORD, MAX_RECORD_BYTES))
    except (OSError, ValidationError) as error:
        raise UsageError(f"{folder / RECORD}: is not the record of a trial: {error}") from error
    job = folder.absolute().parents[1]
    own = JobStore.open(job) if (job / JOB).is_file() else None
    # A stranger's job may name folders of this machine as images.
    said = own.file.spec if own and own.is_own else None
    return StateSource("trial", folder, KeptTrial(record, folder), said)


def find_round(task: Task, step: str | None) -> Round:
    """The round that is judged. Raises UsageError where a task with steps leaves it open."""
    rounds = rounds_of(task)
    if step is None and not task.steps:
        return rounds[0]
    names = ", ".join(round_.name for round_ in rounds if round_.name) or "none: the task has no steps"
    if step is None:
        raise UsageError(f"{task.id} has steps; say which one to judge with --step: {names}")
    found = next((round_ for round_ in rounds if round_.name == step), None)
    if found is None:
        raise UsageError(f"{task.id} has no step {step!r}; its steps are {names}")
    return found


@dataclass(frozen=True, slots=True)
class StateJudge:
    """Judges one end state; each time is as the first."""

    machinery: Machinery
    bench: StateBench
    state: EndState
    source: StateSource

    async def judge(self, folder: Path) -> Judged:
        """Judge it; what the verifier prints and writes goes to `folder`. Raises TrialError or UsageError."""
        verification, archive = self.state.verification, self.state.archive
        if self.source.kind != "trial" or archive is None:
            return await self.bench.judge(self.state, folder)
        judgement = await judge_kept(replace(verification, folder=folder), archive, self.machinery)
        round_, changes = verification.round, verification.work.changes
        evaluation = score(round_, judgement, changes, verification.options)
        if survivors := verification.work.survivors:
            evaluation = with_finding(evaluation, note(f"{_KEPT_AFTER} ({', '.join(survivors[:_NAMED])})"))
        return Judged(judgement, evaluation)


@asynccontextmanager
async def open_state(
    round_: Round, source: StateSource, options: TrialOptions, folder: Path
) -> AsyncIterator[StateJudge]:
    """What judges an end state by the tests of a round, while the block lasts. Raises TrialError or UsageError."""
    task = round_.task
    if source.script and round_.step:
        raise UsageError(f"{source.path}: has a {START_SCRIPT}, which cannot be run for one step of a task alone")
    spec = TrialSpec("verify", task, digest_folder(task.root), source.agent, options=options)
    async with open_machinery(options.backend, options) as machinery, StateBench(machinery) as bench:
        place = await find_place(spec, machinery)
        state = await _end_state(spec, round_, place, source, folder, machinery)
        yield StateJudge(machinery, bench, state, source)


async def _end_state(
    spec: TrialSpec, round_: Round, place: Place, source: StateSource, folder: Path, machinery: Machinery
) -> EndState:
    if source.trial:
        verification = kept_verification(spec, round_, place, source.trial, folder)
        return EndState(verification, source.trial.archive(round_))
    nothing = FileChanges()
    work = Work(None, nothing, nothing, (), (), folder / "artifacts")
    verification = Verification(spec, round_, place, folder, DID_NOTHING, work)
    if source.script:  # a service has to run while it is judged
        agent = CaseAgent(_STARTED.title, f"sh /{START_SCRIPT}", source.path)
        return EndState(verification, live=replace(spec, agent=_STARTED), agent=agent)
    if source.kind != "snapshot" or source.path is None:
        return EndState(verification, files=source.path)
    changes = await _changes_in(source.path, verification, machinery)
    work = replace(work, changes=changes, found=changes)
    return EndState(replace(verification, work=work), archive=source.path)


async def _changes_in(archive: Path, verification: Verification, machinery: Machinery) -> FileChanges:
    """What an archive has that the task did not put there: all of it may be an agent's."""
    place = verification.place
    async with open_sandbox(machinery.backend, place.sandbox) as fresh:
        await lay_out_snapshot(fresh, archive)
        found = await fresh.changes()
    staged = {path for round_ in rounds_of(verification.round.task) for path in round_.staged_files(place.workdir)}
    return found.model_copy(update={"added": tuple(path for path in found.added if path not in staged)})
