"""The doors to jobs, for the command line and for scripts: prepare, resume, run; or all in one call."""

import asyncio
import datetime as dt
import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic

from seatrial.agents.api import make_agent
from seatrial.backends.named import make_backend
from seatrial.concurrency import complete
from seatrial.errors import UsageError
from seatrial.jobs.agents import locked_agent
from seatrial.jobs.attempt import shielded
from seatrial.jobs.enforceable import check_enforceable
from seatrial.jobs.images import open_images, with_images
from seatrial.jobs.interrupts import one_interrupt
from seatrial.jobs.local import JobOutcome, carry_out, out_of_time
from seatrial.jobs.models import model_access, with_model
from seatrial.jobs.plan import trial_id
from seatrial.jobs.preflight import Preflight
from seatrial.jobs.prepare import PreparedJob, prepare_job, prepare_resume
from seatrial.jobs.strangers import check_images
from seatrial.jobs.variables import check_variables
from seatrial.model.job import AgentOptions, JobFile, JobSpec, RunOptions, TrialOptions
from seatrial.model.record import TrialRecord
from seatrial.model.task import Task
from seatrial.sandbox.scratch import Scratch, sweep_scratch
from seatrial.sandbox.way_out import WayOut
from seatrial.tasks.digest import digest_folder
from seatrial.tasks.load import load_task
from seatrial.trial.events import Notice, Observer, unobserved
from seatrial.trial.run import run_trial as run_one
from seatrial.trial.spec import TrialSpec

__all__ = [
    "JobOutcome",
    "PreparedJob",
    "job_name",
    "new_job_folder",
    "prepare_job",
    "prepare_resume",
    "run_job",
    "run_prepared",
    "run_trial",
]

Agents = str | AgentOptions | Sequence[str | AgentOptions]
_USUAL_TRIAL = TrialOptions()
_USUAL_RUN = RunOptions()


async def run_prepared(job: PreparedJob, observe: Observer = unobserved) -> JobOutcome:
    """Carry out a prepared job on the backend its spec names. Raises JobError when another run is at it.

    Raises UsageError when it turns out before the first trial that it cannot be done as asked: the machine cannot hold
    what tasks ask for, or an agent cannot work. A new job is then gone again, as if it had not been asked for. When
    cancelled or interrupted, what runs is torn down and the job can be resumed.
    """
    if not job.trials:
        finished = len(job.earlier)
        return JobOutcome(job.store, finished, finished, 0, "complete")
    with job.store.lock(), one_interrupt():
        await sweep_scratch()
        try:
            return await _run_locked(job, observe)
        except UsageError:
            if job.is_new:
                job.store.discard()
            raise


async def _run_locked(job: PreparedJob, observe: Observer) -> JobOutcome:
    spec, tell = job.store.file.spec, shielded(observe)
    async with (
        make_backend(spec.trial.backend) as backend,
        open_images(backend, lambda line: tell(Notice(line)), _way_out(spec.trial)) as images,
        model_access(spec.model, spec.trial.ca_file) as access,
    ):
        needed = (job.tasks[task_id] for task_id in dict.fromkeys(plan.task_id for plan in job.trials))
        check_enforceable(needed, spec.trial, await backend.probe())
        if spec.run.preflight:
            started = monotonic()
            try:
                async with asyncio.timeout(spec.run.max_wall_sec):
                    await Preflight(job.store, job.tasks, backend, images, access, tell).run(job.trials)
            except TimeoutError:
                return _out_of_time(job)
            job.store.file = _with_less_time(job.store.file, monotonic() - started)
        run = with_model(with_images(run_one, images), access)
        return await carry_out(job.store, job.trials, job.tasks, backend, observe, run)


def _out_of_time(job: PreparedJob) -> JobOutcome:
    finished = len(job.store.finished())
    return JobOutcome(job.store, finished + len(job.trials), finished, 0, "wall budget", out_of_time(0))


def _with_less_time(file: JobFile, spent_sec: float) -> JobFile:
    """The job with what is left of its time, for this run only: that is not written down."""
    options = file.spec.run
    if options.max_wall_sec is None:
        return file
    run = options.model_copy(update={"max_wall_sec": max(options.max_wall_sec - spent_sec, 0.0)})
    return file.model_copy(update={"spec": file.spec.model_copy(update={"run": run})})


def run_job(
    tasks: Path | str | Sequence[Path | str],
    agent: Agents = "oracle",
    *,
    attempts: int = 1,
    folder: Path | str | None = None,
    options: TrialOptions = _USUAL_TRIAL,
    run: RunOptions = _USUAL_RUN,
) -> JobOutcome:
    """Run agents on tasks and wait for the end; also from a notebook, where an event loop is running already.

    Without a folder a new one is made below `jobs/`. Raises UsageError before anything starts, StoreError later.
    """
    folder = Path(folder) if folder else new_job_folder()
    spec = JobSpec(
        name=job_name(folder),
        tasks=tuple(map(str, [tasks] if isinstance(tasks, Path | str) else tasks)),
        agents=_agents(agent),
        attempts=attempts,
        trial=options,
        run=run,
    )
    prepared = prepare_job(spec, folder)
    return complete(lambda: run_prepared(prepared))


def run_trial(
    task: Path | str | Task,
    agent: str | AgentOptions = "oracle",
    *,
    options: TrialOptions = _USUAL_TRIAL,
    folder: Path | str | None = None,
) -> TrialRecord:
    """Run one trial and wait for its record; its files stay in `folder` if one is given. Raises UsageError."""
    task = task if isinstance(task, Task) else load_task(task)
    chosen = locked_agent(_agents(agent)[0])
    check_images([task], options)
    check_variables({task.id: task.config}, [chosen], options)
    spec = TrialSpec(
        trial_id=trial_id(task.id, chosen.title, 1),
        task=task,
        task_digest=digest_folder(task.root),
        agent=make_agent(chosen),
        options=options,
        agent_setup=chosen.setup,
        agent_files=chosen.files,
    )

    async def run(place: Path) -> TrialRecord:
        async with make_backend(options.backend) as backend, open_images(backend, way_out=_way_out(options)) as images:
            return await run_one(replace(spec, images=images), backend, place)

    if folder is not None:
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        return complete(lambda: run(place))
    with Scratch() as scratch:
        return complete(lambda: run(scratch))


def _way_out(options: TrialOptions) -> WayOut:
    return WayOut(options.ca_file, options.proxy)


def new_job_folder(parent: Path = Path("jobs")) -> Path:
    """A folder for a new job, named after the time and not taken yet."""
    name = f"{dt.datetime.now().astimezone():%Y-%m-%d_%H-%M-%S}"
    names = itertools.chain([name], (f"{name}_{number}" for number in itertools.count(2)))
    return next(path for path in map(parent.joinpath, names) if not path.exists())


def job_name(folder: Path) -> str:
    """What a job in a folder is called: the folder's name, in the letters a job's name may have."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", folder.absolute().name).lstrip("._-") or "job"


def _agents(agents: Agents) -> tuple[AgentOptions, ...]:
    chosen = [agents] if isinstance(agents, str | AgentOptions) else agents
    return tuple(AgentOptions(name=each) if isinstance(each, str) else each for each in chosen)
