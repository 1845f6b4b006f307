"""A cluster that loses processes, nodes and disks under a job: no trial is lost, none counts twice, nothing is left."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from threading import Event as ThreadEvent
from threading import Thread
from typing import Any
from unittest.mock import patch

import pytest

from seatrial.gateway.upstreams.replies import Reply
from seatrial.jobs.api import prepare_job, run_prepared
from seatrial.jobs.engine import JobOutcome
from seatrial.model.events import Notice
from seatrial.model.job import AgentOptions, JobSpec, ModelOptions, RunOptions, TrialOptions
from seatrial.model.record import TrialRecord
from seatrial.model.trace import TokenUsage
from seatrial.sandbox.embedded.inits import deny_system_calls
from seatrial.sandbox.runs import sweep_scratch
from seatrial.store.job_store import JobStore
from seatrial.testing.fake_provider import FakeProvider, Say
from seatrial.trial.events import Event, Observer, TrialRetried, TrialStarted
from tests.faults.coordinators import Havoc, control_groups, fault_plan, leftovers
from tests.faults.crowds import HONEST
from tests.faults.places import small_file_system
from tests.jobs.ray.clusters import TestCluster, needs_ray, ray_cluster
from tests.jobs.samples import Watcher
from tests.sandbox.embedded.support import mounts, needs_root, wait_until
from tests.trial.support import write_task

pytestmark = [needs_ray, needs_root, pytest.mark.alone, pytest.mark.timeout(300)]

ANSWER = "#!/bin/sh\necho right > /app/answer.txt\n"
TASKS, ATTEMPTS = 4, 30


@pytest.fixture(scope="module")
def cluster() -> Iterator[TestCluster]:
    with ray_cluster(3) as cluster:
        yield cluster


def honest_tasks(folder: Path, count: int, solution: str = ANSWER) -> Path:
    for number in range(count):
        write_task(folder / f"honest-{number}", files={"solution/solve.sh": solution})
    return folder


def on(cluster: TestCluster, *more: str) -> tuple[str, ...]:
    return ("-a", "oracle", "--image", "host", "--engine", "ray", "--address", cluster.address, *more)


def test_120_trials_survive_kills_of_runners_a_node_and_the_coordinator(cluster, tmp_path):
    tasks, trials = honest_tasks(tmp_path / "tasks", TASKS), TASKS * ATTEMPTS
    havoc = Havoc(cluster, fault_plan(16, trials, runner=2, node=1, coordinator=1))
    havoc.carry_out(tmp_path / "job", str(tasks), "-k", str(ATTEMPTS), "--retries", "9", *on(cluster))

    assert havoc.happened == {"runner": 2, "node": 1, "coordinator": 1}
    store = JobStore.open(tmp_path / "job")
    entries = store.entries()
    assert [entry.outcome for entry in entries] == ["pass"] * trials
    assert len({entry.trial_id for entry in entries}) == trials
    assert set(havoc.finished.values()) == {1}, "no trial is said to be finished twice"
    assert havoc.finished.keys() <= {entry.trial_id for entry in entries}
    assert havoc.retried, "the kills hit trials that were running"
    assert list((tmp_path / "job" / ".drafts").iterdir()) == []
    assert_nothing_left(cluster, havoc)


def assert_nothing_left(cluster: TestCluster, havoc: Havoc) -> None:
    wait_until(lambda: not [runner for name in cluster.nodes for runner in cluster.runners(name)])
    wait_until(lambda: not mounts(str(cluster.folder)))
    for name in cluster.nodes.keys() - havoc.killed:
        # Ray may end the runner of a killed coordinator after its successor has looked: the next one removes that.
        asyncio.run(sweep_scratch(cluster.state_of(name) / "node" / "files"))
        assert leftovers(cluster.state_of(name)) == []
    # Ray ends the runner of a dead node after a second, done or not; what is left there, the next one removes.
    for_the_next = {Path(path).name for name in havoc.killed for path in leftovers(cluster.state_of(name))}
    assert havoc.runs
    wait_until(lambda: not control_groups(havoc.runs - for_the_next))


async def run(cluster: TestCluster, tasks: Path, folder: Path, observe: Observer, **changes: Any) -> JobOutcome:
    run = RunOptions(engine="ray", address=cluster.address, **changes.pop("run", {}))
    usual = {"agents": (AgentOptions(name="oracle"),), "trial": TrialOptions(image="host")}
    job = prepare_job(JobSpec(name="faults", tasks=(str(tasks),), run=run, **{**usual, **changes}), folder)
    return await run_prepared(job, observe)


def records(outcome: JobOutcome) -> list[TrialRecord]:
    return [outcome.store.record(trial_id) for trial_id in outcome.store.finished()]


class DiskFiller(Watcher):
    """Fills the file system of a node when the first trial has started there."""

    def __init__(self, node: str, folder: Path) -> None:
        super().__init__()
        self._node = node
        self._file = folder / "of-somebody-else"

    def __call__(self, event: Event) -> None:
        super().__call__(event)
        if isinstance(event, TrialStarted) and event.node == self._node and not self._file.exists():
            with suppress(OSError), self._file.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(2**16))


def test_trials_of_a_node_whose_disk_is_full_run_elsewhere(cluster, tmp_path):
    tasks = honest_tasks(tmp_path / "tasks", 4, HONEST)
    with small_file_system(cluster.next_state(), "size=48m") as small, added_node(cluster) as node:
        filler = DiskFiller(node, small)
        outcome = asyncio.run(run(cluster, tasks, tmp_path / "job", filler, attempts=5))
    assert [record.outcome for record in records(outcome)] == ["pass"] * 20
    failures = [event.failure for event in filler.of(TrialRetried)]
    assert failures
    assert {failure.kind for failure in failures} == {"infrastructure"}
    assert {failure.cause for failure in failures} == {"HostExhaustedError"}
    assert all(f"the file system at {small} is full" in failure.message for failure in failures)


@contextmanager
def added_node(cluster: TestCluster, **variables: str) -> Iterator[str]:
    """A node for the length of a block."""
    name = cluster.add(variables)
    try:
        yield name
    finally:
        cluster.kill_node(name)
        wait_until(lambda: not cluster.runners(name))


def test_nodes_that_cannot_run_trials_get_none_and_are_named(cluster, tmp_path):
    tasks, watcher = honest_tasks(tmp_path / "tasks", 2), Watcher()
    with added_node(cluster, PYTHONPATH=str(other_version(tmp_path))) as old, node_in_container(cluster) as caged:
        outcome = asyncio.run(run(cluster, tasks, tmp_path / "job", watcher, attempts=6))
    assert [record.outcome for record in records(outcome)] == ["pass"] * 12
    assert {event.node for event in watcher.of(TrialStarted)}.isdisjoint({old, caged})
    told = {event.text for event in watcher.of(Notice)}
    refused = f"node {old} gets no trials: it has Seatrial 0.0.9, and this is {version('seatrial')};"
    assert [text for text in told if text.startswith(refused)]
    (hindered,) = [text for text in told if text.startswith(f"node {caged} gets no trials")]
    assert "seccomp filter" in hindered


def other_version(folder: Path) -> Path:
    """A place for packages in which another Seatrial seems to be installed."""
    metadata = folder / "site" / "seatrial-0.0.9.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: seatrial\nVersion: 0.0.9\n")
    return metadata.parent


@contextmanager
def node_in_container(cluster: TestCluster) -> Iterator[str]:
    """A node that may make no namespaces, as in most containers, for the length of a block."""
    names: list[str] = []
    there, over = ThreadEvent(), ThreadEvent()

    def live() -> None:
        deny_system_calls()  # this thread, and what it starts
        with patch("ray._private.utils.set_sigterm_handler"):  # which only a main thread can
            names.append(cluster.add())
        there.set()
        over.wait()  # Ray ends what a thread has started with it

    thread = Thread(target=live)
    thread.start()
    assert there.wait(60)
    try:
        yield names[0]
    finally:
        cluster.kill_node(names[0])
        over.set()
        thread.join()


# Asks until it is refused.
ASK = """python3 -c '
import json, os, urllib.request
body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hello"}]}).encode()
headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"}
while True:
    urllib.request.urlopen(urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, headers))
'"""
TEN = Reply("ok", usage=TokenUsage(input_tokens=8, output_tokens=2))  # 12 millionths of a dollar


def test_budgets_of_trials_and_money_hold_over_all_nodes(cluster, tmp_path):
    tasks, prices = honest_tasks(tmp_path / "tasks", 1), tmp_path / "prices.toml"
    prices.write_text('[models]\n"m" = { input = 1.0, output = 2.0 }\n')

    async def scenario() -> JobOutcome:
        async with FakeProvider(otherwise=Say(TEN)) as provider:
            return await run(
                cluster,
                tasks,
                tmp_path / "job",
                Watcher(),
                attempts=40,
                agents=(AgentOptions(name="command", command=ASK, model="m"),),
                model=ModelOptions(upstream=f"{provider.base_url}/v1", max_cost_usd=30e-6, prices=str(prices)),
                run={"max_trials": 13},
            )

    outcome = asyncio.run(scenario())
    found = records(outcome)
    assert (outcome.stopped, outcome.started, len(found)) == ("trial budget", 13, 13)
    assert [record.failure for record in found if record.failure] == []
    assert len({record.node for record in found}) > 1
    usages = [record.model_usage for record in found if record.model_usage]
    assert [usage.calls for usage in usages] == [3] * 13
    assert [usage.cost_usd for usage in usages] == pytest.approx([36e-6] * 13)


def test_the_budget_of_time_ends_what_runs_on_every_node(cluster, tmp_path):
    tasks = honest_tasks(tmp_path / "tasks", 1, "#!/bin/sh\nsleep 1000\n")
    watcher = Watcher()
    outcome = asyncio.run(run(cluster, tasks, tmp_path / "job", watcher, attempts=40, run={"max_wall_sec": 20.0}))
    assert (outcome.stopped, outcome.finished) == ("wall budget", 0)
    nodes = {event.node for event in watcher.of(TrialStarted)}
    assert len(nodes) > 1
    for name in nodes:
        assert not cluster.runners(name)
        assert mounts(str(cluster.state_of(name))) == []
        assert leftovers(cluster.state_of(name)) == []
