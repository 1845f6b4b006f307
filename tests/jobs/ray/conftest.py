from collections.abc import Callable
from pathlib import Path

import pytest

from seatrial.jobs.ray import pool as pool_module
from seatrial.jobs.ray import remote_node
from seatrial.model.job import AgentOptions
from seatrial.tasks.layout import digest_folder
from seatrial.tasks.load import load_task
from seatrial.trial.spec import TrialSpec
from tests.conftest import MakeTask
from tests.jobs.ray.fake_cluster import FakeNode

MakeSpec = Callable[..., TrialSpec]
MakeNode = Callable[..., FakeNode]


@pytest.fixture
def make_spec(make_task: MakeTask) -> MakeSpec:
    """A trial of a task of that name: `make_spec("add", memory=100)` has one that declares so much memory."""

    def make(name: str = "add", *, memory: int | None = None, agent: AgentOptions | None = None) -> TrialSpec:
        root = make_task(name, toml=f'[environment]\nmemory = "{memory}M"\n' if memory else "")
        agent = agent or AgentOptions(name="noop")
        return TrialSpec(f"{name}.{agent.title}.1", load_task(root), digest_folder(root), agent, job="nightly")

    return make


@pytest.fixture
def make_node(tmp_path: Path) -> MakeNode:
    """A node with a state folder of its own: `make_node("one", run=…)`."""

    def make(name: str = "one", **changes) -> FakeNode:
        return FakeNode(name, tmp_path / "nodes" / name, **changes)

    return make


@pytest.fixture
def quick_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look again at once, and call a node cut off as soon as it does not answer."""
    monkeypatch.setattr(pool_module, "LOOK_SEC", 0.01)
    monkeypatch.setattr(remote_node, "AGAIN_SEC", 0.01)
    monkeypatch.setattr(remote_node, "CUT_OFF_SEC", 0.0)
