"""Nodes that die, fall silent, fill up or never come, by fakes; also the tests of remote_node.py."""

import asyncio

import pytest

from seatrial.errors import (
    HostExhaustedError,
    NodeLostError,
    NodeUnreachableError,
    SandboxError,
)
from seatrial.jobs.ray import remote_node
from seatrial.jobs.ray.wire import RunnerSettings
from seatrial.model.job import ModelOptions, TrialOptions
from seatrial.trial.log import failed_record
from tests.jobs.ray.fake_cluster import FakeCluster
from tests.jobs.ray.pools import Pool, holding, until
from tests.jobs.ray.test_runner import within
from tests.jobs.samples import FakeTrials, record_for

pytestmark = pytest.mark.usefixtures("quick_pool")


@pytest.mark.parametrize("end", ["is killed", "says so itself"])
def test_a_runner_that_ends_fails_its_trials_and_is_replaced(make_node, make_spec, tmp_path, end):
    hold, began, _ = holding()
    node = make_node(run=hold)
    said = {"is killed": "it was killed", "says so itself": "the node has died"}[end]

    async def run():
        test = Pool(tmp_path, node)
        async with test.open():
            lost = asyncio.ensure_future(test.run(make_spec()))
            await began.wait()
            node.run = FakeTrials()
            if end == "is killed":
                node.becomes("dead")
            else:
                await node.runners[0].end(said)
            with pytest.raises(NodeLostError, match=f"node one was lost: {said}") as raised:
                await lost
            return raised.value.retryable, (await test.run(make_spec("sort")))[0], test.notices, len(node.runners)

    assert within(run()) == (True, "one", [f"node one was lost: {said}"], 2)


def test_a_node_that_is_gone_is_forgotten(make_node, make_spec, tmp_path):
    hold, began, _ = holding()
    nodes = [make_node("one", run=hold), make_node("two", run=hold)]

    async def run():
        test = Pool(tmp_path, *nodes)
        async with test.open() as pool:
            await until(lambda: pool.slots >= 4)
            lost = asyncio.ensure_future(test.run(make_spec(), frozenset({"two"})))
            await began.wait()
            gone = test.cluster.members.pop(0)
            gone.becomes("dead")
            with pytest.raises(NodeLostError):
                await lost
            await gone.runners[0].close()
            nodes[1].run = FakeTrials()
            return list(pool.reports)

    assert within(run()) == ["two"]


def test_a_cut_off_nodes_late_result_is_kept_and_frees_its_seat(make_node, make_spec, tmp_path):
    hold, began, go_on = holding()
    node = make_node(run=hold)

    async def run():
        test = Pool(tmp_path, node)
        async with test.open(settings=RunnerSettings(trial=TrialOptions(), model=ModelOptions(), slots=1)):
            lost = asyncio.ensure_future(test.run(make_spec()))
            await began.wait()
            node.becomes("cut off")
            with pytest.raises(NodeUnreachableError):
                await lost
            waiting = asyncio.ensure_future(test.run(make_spec("sort")))
            node.becomes("there")
            await until(lambda: node.calls[-1] == "news")
            assert not waiting.done()  # the trial that was given up still has the only seat
            go_on.set()
            trial_id, record, folder = await test.late.get()
            await waiting
            return trial_id, record.trial_id, (folder / "log.txt").read_text(), len(node.runners)

    assert within(run()) == ("add.noop.1", "add.noop.1", "here\n", 1)


@pytest.mark.parametrize("moment", ["before it starts", "while it runs"])
def test_a_node_that_hangs_is_given_up(make_node, make_spec, tmp_path, monkeypatch, moment):
    monkeypatch.setattr(remote_node, "ANSWER_SEC", 0.5)
    monkeypatch.setattr("seatrial.jobs.ray.runner.POLL_SEC", 0.01)
    hold, began, go_on = holding()
    node = make_node(run=hold)

    async def run():
        test = Pool(tmp_path, node)
        async with test.open(settings=RunnerSettings(trial=TrialOptions(), model=ModelOptions(), slots=1)):
            if moment == "before it starts":
                node.becomes("frozen")
            lost = asyncio.ensure_future(test.run(make_spec()))
            if moment == "while it runs":
                await began.wait()
                node.becomes("frozen")
            with pytest.raises(NodeUnreachableError, match="node one was lost: no answer"):
                await lost
            go_on.set()
            node.becomes("there")
            return (await test.run(make_spec("sort")))[1].trial_id

    assert within(run()) == "sort.noop.1"


def test_a_node_short_of_room_fails_its_trial_and_rests(make_node, make_spec, tmp_path):
    def short(spec, tries):
        return failed_record(spec, HostExhaustedError("the disk is full")) if tries == 1 else record_for(spec)

    node = make_node(run=FakeTrials(short))

    async def run():
        test = Pool(tmp_path, node)
        async with test.open():
            spec = make_spec()
            _, first, _ = await test.run(spec)
            _, second, _ = await test.run(spec)  # there is room again
        return first.failure.cause, second.failure

    assert within(run()) == ("HostExhaustedError", None)


def test_without_any_node_for_long_trials_stop_waiting(make_node, make_spec, tmp_path):
    node = make_node()

    async def run():
        test = Pool(tmp_path, node)
        async with test.open(longest_wait_sec=0.0) as pool:
            test.cluster.members.clear()
            node.becomes("dead")
            await until(lambda: not pool.reports)
            try:
                await test.run(make_spec())
            finally:
                await node.runners[0].close()

    with pytest.raises(NodeLostError, match="no node could run trials"):
        within(run())


def test_a_cluster_that_fails_is_heard_of(tmp_path):
    class Broken(FakeCluster):
        async def nodes(self):
            raise SandboxError("no cluster")

    async def run():
        test = Pool(tmp_path)
        test.cluster = Broken()
        async with test.open():
            pass

    with pytest.raises(SandboxError, match="no cluster"):
        within(run())
