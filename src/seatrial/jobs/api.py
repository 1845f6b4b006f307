"""Every operation on jobs, for the command line and for scripts: prepare, resume, run, judge again; or all in one call.

What is checked before a job starts is in `prepare.py`, how its trials are carried out in `carry_out.py`.
"""

import datetime as dt
import itertools
import re
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from seatrial.agents.api import make_agent
from seatrial.concurrency import complete
from seatrial.errors import UsageError
from seatrial.jobs.checks import check_images, check_variables, locked_agent
from seatrial.jobs.engine import JobOutcome, make_engine
from seatrial.jobs.machinery import check_model, check_verifier_model, open_machinery, with_upstream
from seatrial.jobs.prepare import PreparedJob, prepare_job
from seatrial.jobs.resume import prepare_resume
from seatrial.model.arguments import as_path, instance_of
from seatrial.model.base import trial_id
from seatrial.model.events import unobserved
from seatrial.model.job import AgentOptions, JobSpec, ModelOptions, RunOptions, TrialOptions
from seatrial.model.loaded_task import Task
from seatrial.model.record import TrialRecord
from seatrial.sandbox.runs import Scratch, sweep_scratch
from seatrial.tasks.layout import digest_folder
from seatrial.tasks.load import load_task
from seatrial.trial.events import Observer
from seatrial.trial.run import run_trial as run_one
from seatrial.trial.spec import TrialSpec

if TYPE_CHECKING:
    from seatrial.jobs.regrade import RegradeOutcome
    from seatrial.jobs.regrade_plan import RegradeOptions

__all__ = [
    "JobOutcome",
    "PreparedJob",
    "job_name",
    "new_job_folder",
    "prepare_job",
    "prepare_resume",
    "regrade_job",
    "run_job",
    "run_prepared",
    "run_trial",
]
Agents = str | AgentOptions | Sequence[str | AgentOptions]
_USUAL_TRIAL = TrialOptions()
_NO_MODEL = ModelOptions()
_USUAL_RUN = RunOptions()


async def run_prepared(job: PreparedJob, observe: Observer = unobserved) -> JobOutcome:
    """Carry out a prepared job on the engine and the backend that its spec names.

    Raises JobError when another run is at it, and UsageError when it turns out before the first trial that it cannot be
    done as asked: the machine cannot hold what tasks ask for, or an agent cannot work. A new job is then gone again, as
    if it had not been asked for. When cancelled or interrupted, what runs is torn down and the job can be resumed.
    """
    if not job.trials:
        finished = len(job.earlier)
        return JobOutcome(job.store, finished, finished, 0, "complete")
    from seatrial.jobs.carry_out import carry_out  # noqa: PLC0415 - what only prepares a job does without

    with job.store.lock(), one_interrupt():
        await sweep_scratch()
        try:
            return await carry_out(job, make_engine(job.store.file.spec.run), observe)
        except UsageError:
            if job.is_new:
                job.store.discard()
            raise


def run_job(
    tasks: Path | str | Sequence[Path | str],
    agent: Agents = "oracle",
    *,
    attempts: int = 1,
    folder: Path | str | None = None,
    options: TrialOptions = _USUAL_TRIAL,
    model: ModelOptions = _NO_MODEL,
    run: RunOptions = _USUAL_RUN,
) -> JobOutcome:
    """Run agents on tasks and wait for the end; also from a notebook, where an event loop is running already.

    Without a folder a new one is made below `jobs/`. Raises UsageError before anything starts, StoreError later.
    """
    folder = as_path("folder", folder) if folder else new_job_folder()
    given = tasks if isinstance(tasks, Sequence) and not isinstance(tasks, str) else [tasks]
    spec = JobSpec(
        name=job_name(folder),
        tasks=tuple(str(as_path("a task", each)) for each in given),
        agents=_agents(agent),
        attempts=attempts,
        trial=options,
        model=model,
        run=run,
    )
    prepared = prepare_job(spec, folder)
    return complete(lambda: run_prepared(prepared))


def regrade_job(
    folder: Path | str, options: "RegradeOptions | None" = None, *, trust_job: bool = False
) -> "RegradeOutcome":
    """Judge the trials of a job again and wait for the end; without options, all of them by the tests of now.

    `trust_job` is your word for a job that somebody else made. Raises UsageError before anything starts, StoreError
    later.
    """
    from seatrial.jobs.regrade import run_regrade  # noqa: PLC0415 - only who regrades pays for it
    from seatrial.jobs.regrade_plan import RegradeOptions, prepare_regrade  # noqa: PLC0415 - likewise

    prepared = prepare_regrade(Path(folder), options or RegradeOptions(), trust_job=trust_job)
    return complete(lambda: run_regrade(prepared))


def run_trial(
    task: Path | str | Task,
    agent: str | AgentOptions = "oracle",
    *,
    options: TrialOptions = _USUAL_TRIAL,
    model: ModelOptions = _NO_MODEL,
    folder: Path | str | None = None,
) -> TrialRecord:
    """Run one trial and wait for its record; its files stay in `folder` if one is given. Raises UsageError."""
    instance_of("options", options, TrialOptions)
    instance_of("model", model, ModelOptions)
    if not isinstance(agent, str | AgentOptions):
        raise UsageError(f"agent is {agent!r:.80}, expected the name of one, or AgentOptions")
    task = task if isinstance(task, Task) else load_task(as_path("task", task))
    chosen = locked_agent(_agents(agent)[0])
    make_agent(chosen)
    check_images([task], options)
    model = with_upstream(model, [chosen])
    check_model(model, [chosen])
    check_verifier_model(options)
    check_variables({task.id: task.config}, [chosen], options, model.upstream)
    spec = TrialSpec(
        trial_id=trial_id(task.id, chosen.title, 1),
        task=task,
        task_digest=digest_folder(task.root),
        agent=chosen,
        options=options,
    )
    if folder is not None:
        place = as_path("folder", folder)
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{place}: no folder for the trial can be made there: {error.strerror}") from error
        return complete(lambda: _run_alone(spec, model, place))
    with Scratch() as scratch:
        return complete(lambda: _run_alone(spec, model, scratch))


async def _run_alone(spec: TrialSpec, model: ModelOptions, folder: Path) -> TrialRecord:
    async with open_machinery(spec.options.backend, spec.options, model) as machinery:
        return await run_one(spec, machinery, folder)


def new_job_folder(parent: Path = Path("jobs")) -> Path:
    """A folder for a new job, named after the time and not taken yet."""
    name = f"{dt.datetime.now().astimezone():%Y-%m-%d_%H-%M-%S}"
    names = itertools.chain([name], (f"{name}_{number}" for number in itertools.count(2)))
    return next(path for path in map(parent.joinpath, names) if not path.exists())


def job_name(folder: Path) -> str:
    """What a job in a folder is called: the folder's name, in the letters a job's name may have."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", folder.absolute().name).lstrip("._-") or "job"


def _agents(agents: Agents) -> tuple[AgentOptions, ...]:
    chosen: Any = [agents] if isinstance(agents, str | AgentOptions) else agents
    if not isinstance(chosen, Sequence) or not all(isinstance(each, str | AgentOptions) for each in chosen):
        raise UsageError(f"agent is {agents!r:.80}, expected the name of one, AgentOptions, or a list of them")
    return tuple(AgentOptions(name=each) if isinstance(each, str) else each for each in chosen)


# The first Ctrl-C ends a job; impatient ones after it must not spoil the tidying up.


@contextmanager
def one_interrupt() -> Iterator[None]:
    """Let only the first SIGINT of this block through to whoever handles it.

    A second one would raise in the middle of whatever the event loop does just then, such as removing a sandbox.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    seen = 0

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal seen
        seen += 1
        if seen == 1:
            before(number, frame)

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
