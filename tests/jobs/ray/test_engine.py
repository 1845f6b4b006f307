"""Jobs on a real cluster: the same records as on one machine, and none lost with a process or a node."""

import asyncio
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from seatrial.env.client import ClientConfig
from seatrial.env.harbor import HarborEnv
from seatrial.env.rollout import State
from seatrial.images.config import ImageDocument, Layers, host_platform
from seatrial.images.store import Store
from seatrial.jobs.api import prepare_job, run_prepared
from seatrial.jobs.engine import JobOutcome
from seatrial.jobs.ray.engine import examine_cluster, forget_late
from seatrial.model.job import AgentOptions, JobSpec, ModelOptions, RunOptions, TrialOptions
from seatrial.model.record import TrialRecord
from seatrial.store.job_store import JobStore
from seatrial.testing.fake_provider import FakeProvider, Say
from seatrial.trial.events import Event, PhaseStarted, TrialStarted
from tests.images.support import add, archive, entry, link
from tests.images.support import run as with_store
from tests.jobs.ray.clusters import TestCluster, needs_ray, ray_cluster
from tests.jobs.samples import Watcher, record

pytestmark = needs_ray

ORACLE = AgentOptions(name="oracle")
Observe = Callable[[Event], None]
ASK = """/usr/bin/python3 -c '
import json, os, urllib.request
body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "?"}]}).encode()
headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"}
urllib.request.urlopen(urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, headers))
'"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[TestCluster]:
    with ray_cluster(3) as cluster:
        yield cluster


@pytest.fixture
def tasks(make_task, tmp_path: Path) -> Path:
    for name in ("add", "sort"):
        make_task(f"tasks/{name}", files={"solution/solve.sh": "#!/bin/sh\necho done\n"})
    return tmp_path / "tasks"


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """One that only the store of this machine has; its own system where none can be made."""
    busybox = shutil.which("busybox")
    if busybox is None or os.geteuid() != 0:
        return "host"
    program = Path(busybox).read_bytes()

    async def load(store: Store) -> None:
        links = [link(f"bin/{name}", "busybox") for name in ("sh", "cat", "echo", "mkdir")]
        layer = await add(store, archive([entry("bin/busybox", content=program, mode=0o755), *links]))
        here = host_platform()
        config = ImageDocument(architecture=here.architecture, os=here.os, rootfs=Layers(diff_ids=(layer.digest,)))
        store.put_image(config, "only-here:1")

    with_store(load, tmp_path / "cache")
    monkeypatch.setenv("SEATRIAL_CACHE", str(tmp_path / "cache"))
    return "only-here:1"


async def run(folder: Path, tasks: Path, address: str | None, observe: Observe = lambda _: None, **changes: Any):
    options = RunOptions(engine="ray" if address else "local", address=address, retries=5)
    usual = {"agents": (ORACLE,), "trial": TrialOptions(image="host"), "run": options}
    job = prepare_job(JobSpec(name="nightly", tasks=(str(tasks),), **{**usual, **changes}), folder)
    return await run_prepared(job, observe)


def records(outcome: JobOutcome) -> list[TrialRecord]:
    return [outcome.store.record(trial_id) for trial_id in sorted(outcome.store.finished())]


def test_a_job_has_the_same_records_as_on_one_machine(cluster, tasks, image, tmp_path):
    watcher, trial = Watcher(), TrialOptions(image=image)
    here = asyncio.run(run(tmp_path / "here", tasks, None, attempts=6, trial=trial))
    there = asyncio.run(run(tmp_path / "there", tasks, cluster.address, watcher, attempts=6, trial=trial))
    assert (there.planned, there.finished, there.started, there.stopped) == (12, 12, 12, "complete")
    assert list(map(essence, records(there))) == list(map(essence, records(here)))
    assert {record.node for record in records(there)} == {event.node for event in watcher.of(TrialStarted)}
    assert {(record.failure, record.sandbox.image) for record in records(there)} == {(None, image)}
    assert {record.node for record in records(there)} <= set(cluster.nodes)
    assert len({record.node for record in records(there)}) > 1
    assert left_by(there) == left_by(here)
    assert Counter(event.phase for event in watcher.of(PhaseStarted))["verify"] == 12


def essence(record: TrialRecord) -> dict[str, Any]:
    """What of a record does not depend on when and where it was made."""
    data: dict[str, Any] = json.loads(record.model_dump_json())
    for key in ("job_id", "node", "times", "resources", "agent_result", "verifier_run", "provenance", "artifacts"):
        data.pop(key)
    data["end_state"].pop("size")  # times of files are in it, compressed
    return data


def left_by(outcome: JobOutcome) -> dict[str, int]:
    root = outcome.store.path / "trials"
    return {
        str(path.relative_to(root)): path.stat().st_mode
        for path in root.rglob("*")
        if path.name != "record.json" and path.is_file()
    }


def test_keys_reach_the_node_and_no_file_of_ray_or_ours(cluster, tasks, tmp_path, monkeypatch):
    key = "k3y-that-only-the-gateway-may-have"
    monkeypatch.setenv("MY_KEY", key)

    async def scenario():
        async with FakeProvider() as provider:
            outcome = await run(
                tmp_path / "job",
                tasks,
                cluster.address,
                agents=(AgentOptions(name="command", command="true", model="m"),),
                model=ModelOptions(upstream=f"{provider.base_url}/v1,key=MY_KEY"),
                run=RunOptions(engine="ray", address=cluster.address, keep_going=True),
            )
            return outcome, provider.received[0].headers["authorization"]

    outcome, sent = asyncio.run(scenario())
    assert sent == f"Bearer {key}"  # by the preflight, from the node
    assert outcome.finished == 2
    files = [path for root in (cluster.folder, outcome.store.path) for path in root.rglob("*") if path.is_file()]
    assert len(files) > 20
    assert [path for path in files if key.encode() in path.read_bytes()] == []


class Noting(HarborEnv):
    """An environment of a program's own, which nodes get by value."""

    async def post_sandbox_setup(self, state: State) -> None:
        await super().post_sandbox_setup(state)
        state["noted"] = os.environ["SEATRIAL_STATE_DIR"]


def test_rollouts_of_an_environment_spread_over_the_nodes(cluster, tasks, tmp_path, monkeypatch):
    key = "k3y-of-a-trainer"
    monkeypatch.setenv("MY_KEY", key)

    async def scenario():
        async with FakeProvider(*[Say("yes")] * 8) as provider:
            return await Noting(run_command=ASK, dataset_path=tasks, image="host").evaluate(
                ClientConfig(api_base_url=provider.base_url, api_key_var="MY_KEY"),
                "m",
                rollouts_per_example=4,
                max_concurrent=3,
                engine="ray",
                address=cluster.address,
                state_columns=["noted"],
                save_to=tmp_path / "job",
            )

    results = asyncio.run(scenario())
    assert [output["error"] for output in results["outputs"]] == [None] * 8
    assert [len(output["trajectory"]) for output in results["outputs"]] == [1] * 8
    folders = {str(cluster.state_of(name)) for name in cluster.nodes}
    assert len({output["noted"] for output in results["outputs"]} & folders) > 1
    assert len(JobStore.open(tmp_path / "job").finished()) == 8
    files = [path for root in (cluster.folder, tmp_path / "job") for path in root.rglob("*") if path.is_file()]
    assert [path for path in files if key.encode() in path.read_bytes()] == []


def test_a_node_with_another_version_is_told_apart(cluster, tmp_path):
    installed = tmp_path / "seatrial-9.9.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: seatrial\nVersion: 9.9\n")
    other = cluster.add(variables={"PYTHONPATH": str(tmp_path)})
    found = {each.node: each for each in asyncio.run(examine_cluster(cluster.address))}
    assert found.keys() == set(cluster.nodes)
    assert [each.node for each in found.values() if each.status == "unfit"] == [other]
    assert f"it has Seatrial 9.9, and this is {version('seatrial')}" in found[other].reason
    assert "embedded sandboxes" in found[cluster.head].detail
    cluster.kill_node(other)


def test_what_is_killed_is_started_again_and_a_late_node_helps(cluster, tasks, tmp_path):
    killed = Killed(cluster)
    outcome = asyncio.run(
        run(
            tmp_path / "job",
            tasks,
            cluster.address,
            killed,
            attempts=30,
            agents=(AgentOptions(name="command", command="sleep 1"),),
        )
    )
    found = records(outcome)
    assert (outcome.finished, outcome.stopped) == (60, "complete")
    assert [record.failure for record in found if record.failure] == []
    again = [record for record in found if record.tries > 1]
    assert len(again) >= 2
    assert {each.node for each in again}.isdisjoint({killed.node})
    assert cluster.runners(killed.node) == []
    tries = outcome.store.tries()
    assert tries.keys() == {record.trial_id for record in again}
    late = set(cluster.nodes) - killed.before
    assert late
    assert late <= {record.node for record in found}
    for name in cluster.nodes:
        assert [path.name for path in cluster.state_of(name).glob("*run-*/*")] == []


class Killed:
    """Kills the runner of one node and the daemon of another when they are at work, and adds a node."""

    def __init__(self, cluster: TestCluster) -> None:
        self.cluster = cluster
        self.before = set(cluster.nodes)
        self.runner, self.node = [name for name in cluster.nodes if name != cluster.head][:2]
        self._nodes: dict[str, str] = {}
        self._due = {self.runner: cluster.kill_runner, self.node: cluster.kill_node}

    def __call__(self, event: Event) -> None:
        if isinstance(event, TrialStarted) and event.node:
            self._nodes[event.trial_id] = event.node
        if isinstance(event, PhaseStarted) and event.phase == "agent":
            name = self._nodes[event.trial_id]
            if kill := self._due.pop(name, None):
                kill(name)
                if not self._due:
                    self.cluster.add(wait=False)  # not in a thread: Ray ends what a thread has started with it


def test_a_late_result_is_taken_off_its_node_and_forgotten():
    folders = []

    async def fetch(folder):
        folders.append(folder)
        assert folder.is_dir()
        return record()

    asyncio.run(forget_late("add.noop.1", fetch))
    assert [folder.exists() for folder in folders] == [False]
