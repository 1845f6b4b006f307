"""Sandboxes that do nothing, as a plug-in that other processes find too: at once, or after a tenth of a second."""

import asyncio
import os
import sys
from pathlib import Path

from benchmarks.trials import NULL_FILES
from seatrial.backends.named import BackendPlugin
from seatrial.sandbox.api import ExecResult, ExecSpec, SandboxSpec
from seatrial.testing.null import NullBackend, NullSandbox

REPOSITORY = Path(__file__).parent.parent
SLOW_SEC = 0.1


class SlowSandbox(NullSandbox):
    """Nothing, for whose agent one has to wait."""

    async def exec(self, spec: ExecSpec) -> ExecResult:
        """Success, after a while."""
        if spec.phase == "agent":
            await asyncio.sleep(SLOW_SEC)
        return await super().exec(spec)


class SlowBackend(NullBackend):
    """Makes sandboxes for whose agents one has to wait."""

    async def create(self, spec: SandboxSpec) -> SlowSandbox:
        return SlowSandbox(spec.limits, self._archives)


NULL = BackendPlugin(lambda: NullBackend(NULL_FILES))
SLOW = BackendPlugin(lambda: SlowBackend(NULL_FILES))


def install_backends(site: Path) -> None:
    """Have this process, and those that it starts, find the two as `bench-null` and `bench-slow`."""
    metadata = site / "seatrial_bench-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: seatrial-bench\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[seatrial.backends]\nbench-null = benchmarks.null_backends:NULL\nbench-slow = benchmarks.null_backends:SLOW\n"
    )
    paths = [str(site), str(REPOSITORY)]
    sys.path[:0] = paths
    os.environ["PYTHONPATH"] = os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])
