"""What each node of a cluster is, and whether trials can run there: for `seatrial doctor --engine ray`."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from seatrial.errors import NodeLostError, NodeUnfitError, SandboxError
from seatrial.jobs.ray.cluster import Cluster, ClusterNode
from seatrial.jobs.ray.offered_images import OfferedImages
from seatrial.jobs.ray.remote_node import RemoteNode
from seatrial.jobs.ray.start import connected
from seatrial.jobs.ray.wire import NodeReport, RunnerSettings
from seatrial.model.job import ModelOptions, TrialOptions
from seatrial.trial.events import unobserved

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
    """Try a runner on every node, all at once."""
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
