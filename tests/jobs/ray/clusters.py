"""A real Ray cluster on this machine, each node with folders of its own; for tests that kill parts of it."""

import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

needs_ray = pytest.mark.whole(None if find_spec("ray") else "no Ray here: install ray")

# A node that is killed is noticed within two seconds instead of fifteen.
_IMPATIENT = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 3}


class TestCluster:
    """Nodes that can be added and killed."""

    __test__ = False

    def __init__(self, folder: Path) -> None:
        from ray.cluster_utils import Cluster  # noqa: PLC0415 - not installed everywhere

        self.folder = folder
        self.nodes: dict[str, Any] = {}
        # Whoever runs the tests may have a cluster of their own, whose address this would overwrite.
        with patch("ray._private.utils.write_ray_address"):
            self._cluster = Cluster()
            self.head = self.add(temp_dir=str(folder / "ray"), _system_config=_IMPATIENT, include_dashboard=False)

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def add(self, variables: Mapping[str, str] | None = None, **options: Any) -> str:
        """Start another node, with more variables if need be; returns its name."""
        state = self.next_state()
        given = {"SEATRIAL_STATE_DIR": str(state), "SEATRIAL_CACHE": str(state / "cache"), **(variables or {})}
        node = self._cluster.add_node(num_cpus=0, object_store_memory=80 * 2**20, env_vars=given, **options)
        name = f"{socket.gethostname()}-{node.node_id[:6]}"
        self.nodes[name] = (node, state)
        return name

    def next_state(self) -> Path:
        """Where the node that comes next keeps its files."""
        return self.folder / f"node-{len(self.nodes) + 1}"

    def state_of(self, name: str) -> Path:
        return Path(self.nodes[name][1])

    def runners(self, name: str) -> list[int]:
        """The processes of our runner on a node, by the folder that only that node has."""
        mark = f"SEATRIAL_STATE_DIR={self.state_of(name)}\0".encode()
        return [pid for pid in _processes(b"ray::RunnerActor") if mark in _read(pid, "environ")]

    def kill_runner(self, name: str) -> None:
        for pid in self.runners(name):
            os.kill(pid, signal.SIGKILL)

    def kill_node(self, name: str) -> None:
        """Kill the node's daemon, and nothing else."""
        self.nodes[name][0].all_processes["raylet"][0].process.kill()

    def shutdown(self) -> None:
        self._cluster.shutdown()


def _processes(title: bytes) -> list[int]:
    found = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
    return [pid for pid in found if _read(pid, "cmdline").startswith(title)]


def _read(pid: int, name: str) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/{name}").read_bytes()
    return b""


@contextmanager
def ray_cluster(nodes: int) -> Iterator[TestCluster]:
    """So many nodes for the length of a block."""
    folder = Path(tempfile.mkdtemp(prefix="st-"))  # short: a socket's path has no room for pytest's folders
    cluster = TestCluster(folder)
    try:
        for _ in range(nodes - 1):
            cluster.add()
        yield cluster
    finally:
        cluster.shutdown()
        shutil.rmtree(folder, ignore_errors=True)
