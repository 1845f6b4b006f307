"""A cluster that loses processes, nodes and disks under a job: no trial is lost, none counts twice, nothing is left."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from seatrial.store.job_store import JobStore
from tests.faults.coordinators import Havoc, control_groups, fault_plan, leftovers
from tests.jobs.ray.clusters import TestCluster, ray_cluster
from tests.sandbox.embedded.support import mounts, needs_root, wait_until
from tests.trial.support import write_task

pytest.importorskip("ray", reason="no Ray: install ray")
pytestmark = [needs_root, pytest.mark.timeout(300)]

ANSWER = "#!/bin/sh\necho right > /app/answer.txt\n"
TASKS, ATTEMPTS = 4, 100


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


def test_400_trials_survive_kills_of_runners_a_node_and_the_coordinator(cluster, tmp_path):
    tasks, trials = honest_tasks(tmp_path / "tasks", TASKS), TASKS * ATTEMPTS
    havoc = Havoc(cluster, fault_plan(16, trials, runner=4, node=1, coordinator=2))
    havoc.carry_out(tmp_path / "job", str(tasks), "-k", str(ATTEMPTS), "--retries", "9", *on(cluster))

    assert havoc.happened == {"runner": 4, "node": 1, "coordinator": 2}
    store = JobStore.open(tmp_path / "job")
    entries = store.entries()
    assert [entry.outcome for entry in entries] == ["pass"] * trials
    assert len({entry.trial_id for entry in entries}) == trials
    assert set(havoc.finished.values()) == {1}, "no trial is said to be finished twice"
    assert havoc.finished.keys() <= {entry.trial_id for entry in entries}
    assert havoc.retried, "the kills hit trials that were running"
    assert havoc.late in {store.record(entry.trial_id).node for entry in entries}
    assert list((tmp_path / "job" / ".drafts").iterdir()) == []
    assert_nothing_left(cluster, havoc)


def assert_nothing_left(cluster: TestCluster, havoc: Havoc) -> None:
    for name in cluster.nodes:
        state = cluster.state_of(name)
        wait_until(lambda name=name: not cluster.runners(name))
        wait_until(lambda state=state: not mounts(str(state)))
        assert leftovers(state) == []
    assert havoc.runs
    wait_until(lambda: not control_groups(havoc.runs))
