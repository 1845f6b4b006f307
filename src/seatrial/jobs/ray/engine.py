"""The Ray engine: the trials of a job on the nodes of a cluster, with queue, budgets and store here.

It says what the runners are told, which nodes will do, and what becomes of late results; `pool.py` looks after the
nodes. Whether nodes are fit can be asked without a job.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Literal

from seatrial.agents.api import make_agent
from seatrial.errors import NodeLostError, NodeUnfitError, SandboxError
from seatrial.gateway.dialects import PROVIDERS
from seatrial.jobs.checks import check_enforceable
from seatrial.jobs.engine import PortableTrials
from seatrial.jobs.preflight import plan_preflight
from seatrial.jobs.prepare import PreparedJob
from seatrial.jobs.ray.cluster import Cluster, ClusterNode
from seatrial.jobs.ray.delivery import portable, settings_files
from seatrial.jobs.ray.offered_images import OfferedImages, open_offered_images
from seatrial.jobs.ray.opening import connected, import_ray, pack_trials
from seatrial.jobs.ray.pool import CheckNode, Fetch, KeepLate, NodePool, PoolOptions, open_pool
from seatrial.jobs.ray.remote_node import RemoteNode
from seatrial.jobs.ray.wire import NodeReport, RunnerSettings
from seatrial.model.events import unobserved
from seatrial.model.job import AgentOptions, JobSpec, ModelOptions, RunOptions, TrialOptions
from seatrial.model.loaded_task import Task
from seatrial.sandbox.runs import Scratch
from seatrial.store.job_store import JobStore
from seatrial.tasks.variables import allowed_variables, keys_of, templates_in
from seatrial.trial.events import Observer


class RayEngine:
    """Runs trials on the nodes of a Ray cluster."""

    def __init__(self, options: RunOptions) -> None:
        import_ray()
        self._options = options

    @asynccontextmanager
    async def open(self, job: PreparedJob, observe: Observer) -> AsyncIterator[NodePool]:
        options = self._options
        settings = runner_settings(job, options)
        pool_options = PoolOptions(settings, _enforceable(job), keep_late(job.store), observe, options.host_wait_sec)
        async with self._open_pool(pool_options) as pool:
            if options.preflight:
                await pool.try_out(plan_preflight(job))
            yield pool

    @asynccontextmanager
    async def open_places(
        self, trials: PortableTrials, options: TrialOptions, tell: Observer
    ) -> AsyncIterator[NodePool]:
        """Places that carry out what a program brings along; see SendingEngine."""
        trial, model = portable(options, ModelOptions())
        settings = RunnerSettings(
            trial=trial,
            model=model,
            variables={**allowed_variables(options.allow_env), **_here(_keys_for(options.verifier_upstream))},
            slots=self._options.concurrent,
            files=settings_files(trial, model),
            sent=pack_trials(trials),
        )
        pool_options = PoolOptions(settings, _takes_all, forget_late, tell, self._options.host_wait_sec)
        async with self._open_pool(pool_options, trials.images) as pool:
            yield pool

    @asynccontextmanager
    async def _open_pool(self, options: PoolOptions, names: Sequence[str] = ()) -> AsyncIterator[NodePool]:
        with connected(self._options.address) as cluster:
            async with (
                open_offered_images(names) as images,
                open_pool(cluster, replace(options, images=images)) as pool,
            ):
                yield pool


def runner_settings(job: PreparedJob, options: RunOptions) -> RunnerSettings:
    """What the runners of a job are told. Raises JobError for a file that cannot be read."""
    spec = job.store.file.spec
    trial, model = portable(spec.trial, spec.model)
    names = variables_needed(spec, job.needed_tasks())
    return RunnerSettings(
        trial=trial,
        model=model,
        variables=_here(names),
        starting=options.starting,
        slots=options.concurrent,
        files=settings_files(trial, model),
        agents=spec.agents,
    )


def variables_needed(spec: JobSpec, tasks: Iterable[Task]) -> frozenset[str]:
    """The variables of this machine that upstream, agents and tasks of a job may have."""
    keys = {*_keys_for(spec.model.upstream), *_keys_for(spec.trial.verifier_upstream)}
    return frozenset({*spec.trial.allow_env, *keys, *_of_agents(spec.agents, tasks)})


def _here(names: Collection[str]) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name in names}


def _keys_for(upstream: str | None) -> frozenset[str]:
    """The variables that an upstream may take its keys from."""
    named = [each for each in PROVIDERS.values() if each.name in (upstream or "")]
    return keys_of(upstream).union(*(each.key_variables for each in named))


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


async def forget_late(_: str, fetch: Fetch) -> None:
    """Take a late result off its node: the rollout has been made again."""
    with Scratch() as folder:
        await fetch(folder)


# For `seatrial doctor --engine ray`: what each node is, and whether trials can run there.

_ANY_BACKEND = RunnerSettings(trial=TrialOptions(backend="auto"), model=ModelOptions())


@dataclass(frozen=True, slots=True)
class NodeFinding:
    """One node: what it is, as far as that could be asked, and why it cannot run trials if it cannot."""

    node: str
    status: Literal["fit", "unfit"]
    detail: str
    reason: str = ""


async def examine_cluster(address: str | None) -> list[NodeFinding]:
    """Try a runner on every node of the cluster at an address, or on this machine. Raises UsageError without one."""
    with connected(address) as cluster:
        return await examine_nodes(cluster)


async def examine_nodes(cluster: Cluster) -> list[NodeFinding]:
    async with asyncio.TaskGroup() as group:
        looking = [group.create_task(_examine(cluster, node)) for node in await cluster.nodes()]
    return [each.result() for each in looking]


async def _examine(cluster: Cluster, node: ClusterNode) -> NodeFinding:
    try:
        remote = RemoteNode(node, await cluster.connect(node), unobserved, lambda *_: None, OfferedImages())
    except (NodeUnfitError, SandboxError) as error:
        return NodeFinding(node.name, "unfit", "", str(error))
    try:
        return NodeFinding(node.name, "fit", _described(await remote.settle(_ANY_BACKEND)))
    except (NodeUnfitError, SandboxError) as error:
        detail = _described(remote.report) if remote.report else ""
        return NodeFinding(node.name, "unfit", detail, str(error))
    finally:
        with suppress(NodeLostError):
            await remote.link.close()


def _described(report: NodeReport) -> str:
    sandboxes = f"{report.capabilities.backend} sandboxes, " if report.capabilities else ""
    size = f"{report.cores} cores, {report.memory_mb:,} MB of memory, {report.disk_free_mb:,} MB of disk free"
    return f"{sandboxes}{report.slots} trials at once, {size}, Python {report.python}"
