"""The Ray engine: the trials of a job on the nodes of a cluster, with queue, budgets and store here."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from time import monotonic

from seatrial.agents.api import make_agent
from seatrial.jobs.attempt import shielded
from seatrial.jobs.carry_out import carry_out
from seatrial.jobs.enforceable import check_enforceable
from seatrial.jobs.engine import JobOutcome, PortableTrials
from seatrial.jobs.local import before_the_first
from seatrial.jobs.preflight import plan_preflight
from seatrial.jobs.prepare import PreparedJob
from seatrial.jobs.ray.delivery import portable, settings_files
from seatrial.jobs.ray.offered_images import open_offered_images
from seatrial.jobs.ray.pool import NodePool, open_pool
from seatrial.jobs.ray.pool_options import CheckNode, Fetch, KeepLate, PoolOptions
from seatrial.jobs.ray.sending import forget_late, pack_trials
from seatrial.jobs.ray.start import connected, import_ray
from seatrial.jobs.ray.wire import NodeReport, RunnerSettings
from seatrial.model.job import AgentOptions, JobSpec, ModelOptions, RunOptions, TrialOptions
from seatrial.model.task import Task
from seatrial.store.job_store import JobStore
from seatrial.tasks.allowed import allowed_variables, keys_of
from seatrial.tasks.environ import templates_in
from seatrial.trial.events import Observer

_LEAST_WORKERS = 1000  # so that nodes which come later find trials waiting
_USUAL_KEYS = (
    ("anthropic", "ANTHROPIC_API_KEY"),
    ("google", "GEMINI_API_KEY"),
    ("google", "GOOGLE_API_KEY"),
    ("openai", "OPENAI_API_KEY"),
)


class RayEngine:
    """Runs trials on the nodes of a Ray cluster."""

    def __init__(self, options: RunOptions) -> None:
        import_ray()
        self._options = options

    async def run(self, job: PreparedJob, observe: Observer) -> JobOutcome:
        """Carry out a job; see Engine."""
        tell, options, began = shielded(observe), self._options, monotonic()
        pool_options = PoolOptions(
            runner_settings(job, options),
            _enforceable(job),
            keep_late(job.store),
            tell,
            options.host_wait_sec,
        )
        with connected(options.address) as cluster:
            async with (
                open_offered_images() as images,
                open_pool(cluster, replace(pool_options, images=images)) as pool,
            ):
                if options.preflight and not await self._tried_out(job, pool):
                    return before_the_first(job)
                workers = options.concurrent or max(_LEAST_WORKERS, 4 * pool.slots)
                return await carry_out(job, pool, observe, workers=workers, began=began)

    @asynccontextmanager
    async def open_places(
        self, trials: PortableTrials, options: TrialOptions, tell: Observer
    ) -> AsyncIterator[NodePool]:
        """Places that carry out what a program brings along; see SendingEngine."""
        trial, model = portable(options, ModelOptions())
        settings = RunnerSettings(
            trial=trial,
            model=model,
            variables=allowed_variables(options.allow_env),
            slots=self._options.concurrent,
            files=settings_files(trial, model),
            sent=pack_trials(trials),
        )
        pool_options = PoolOptions(settings, _takes_all, forget_late, tell, self._options.host_wait_sec)
        with connected(self._options.address) as cluster:
            async with (
                open_offered_images(trials.images) as images,
                open_pool(cluster, replace(pool_options, images=images)) as pool,
            ):
                yield pool

    async def _tried_out(self, job: PreparedJob, pool: NodePool) -> bool:
        try:
            async with asyncio.timeout(self._options.max_wall_sec):
                await pool.try_out(plan_preflight(job))
        except TimeoutError:
            return False
        return True


def runner_settings(job: PreparedJob, options: RunOptions) -> RunnerSettings:
    """What the runners of a job are told. Raises JobError for a file that cannot be read."""
    spec = job.store.file.spec
    trial, model = portable(spec.trial, spec.model)
    names = variables_needed(spec, job.needed_tasks())
    return RunnerSettings(
        trial=trial,
        model=model,
        variables={name: value for name, value in os.environ.items() if name in names},
        starting=options.starting,
        slots=options.concurrent,
        files=settings_files(trial, model),
        agents=spec.agents,
    )


def variables_needed(spec: JobSpec, tasks: Iterable[Task]) -> frozenset[str]:
    """The variables of this machine that upstream, agents and tasks of a job may have."""
    upstream = spec.model.upstream or ""
    keys = {*keys_of(upstream), *(key for name, key in _USUAL_KEYS if name in upstream)}
    return frozenset({*spec.trial.allow_env, *keys, *_of_agents(spec.agents, tasks)})


def _of_agents(agents: Iterable[AgentOptions], tasks: Iterable[Task]) -> Iterator[str]:
    """What the agents take from the user's variables; what tasks ask for has to be allowed."""
    made = [(each, make_agent(each)) for each in agents]
    for task in tasks:
        asked = task.config.solution_env
        for options, agent in made:
            table = agent.templates(task.config)
            own = {name: text for name, text in table.items() if asked.get(name) != text or name in options.env}
            yield from (name for name, _ in templates_in(own))


def _takes_all(_: NodeReport) -> None:
    """What a task asks for and a node cannot do is found out by its trial."""


def _enforceable(job: PreparedJob) -> CheckNode:
    def check(report: NodeReport) -> None:
        assert report.capabilities is not None  # noqa: S101 - asked before
        check_enforceable(job.needed_tasks(), job.store.file.spec.trial, report.capabilities)

    return check


def keep_late(store: JobStore) -> KeepLate:
    """Keeps late results of a job as tries, which never count."""

    async def keep(trial_id: str, fetch: Fetch) -> None:
        with store.draft(trial_id) as draft:
            record = await fetch(draft.path)
            await asyncio.to_thread(draft.commit, record, counts=False)

    return keep
