"""Nodes as places for trials, by fakes: what goes there, what comes back, and which nodes get work."""

import asyncio
import os

import pytest

from seatrial.errors import (
    HostExhaustedError,
    HostUnsupportedError,
    NodeLostError,
    NodeUnreachableError,
    PreflightError,
    SandboxError,
    TrialError,
)
from seatrial.jobs.preflight import PreflightPlan
from seatrial.jobs.ray import remote_node
from seatrial.jobs.ray.wire import INLINE_BYTES, RunnerSettings
from seatrial.model.job import ModelOptions, TrialOptions
from seatrial.trial.events import PhaseStarted
from seatrial.trial.log import failed_record
from tests.jobs.ray.fake_cluster import FakeCluster
from tests.jobs.ray.pools import Pool, holding, until
from tests.jobs.ray.test_runner import within
from tests.jobs.samples import FakeTrials, Watcher, record_for

pytestmark = pytest.mark.usefixtures("quick_pool")


def test_trials_are_spread_and_what_they_left_arrives(make_node, make_spec, tmp_path):
    async def run():
        test, watcher = Pool(tmp_path, make_node("one"), make_node("two")), Watcher()
        async with test.open() as pool:
            await until(lambda: pool.slots >= 4)
            ended = await asyncio.gather(*(test.run(make_spec(name), observe=watcher) for name in ("add", "sort")))
        return ended, watcher

    ended, watcher = within(run())
    assert {node for node, *_ in ended} == {"one", "two"}
    assert [record.trial_id for _, record, _ in ended] == ["add.noop.1", "sort.noop.1"]
    assert all((folder / "agent" / "stdout.txt").read_text() == "try 1\n" for *_, folder in ended)
    assert len(watcher.of(PhaseStarted)) == 2


def test_trials_that_are_limited_for_the_whole_run_are_shared_by_the_nodes(make_node, make_spec, tmp_path):
    async def run():
        test = Pool(tmp_path, *(make_node(name) for name in ("one", "two", "three")))
        test.slots = 7
        async with test.open() as pool:
            await until(lambda: len(pool.reports) == 3)
            return {report.slots for report in pool.reports.values()}

    assert within(run()) == {3}


def test_large_results_come_in_pieces_and_are_dropped(make_node, make_spec, tmp_path):
    noise = os.urandom(5 * INLINE_BYTES)

    async def large(spec, folder, _):
        (folder / "artifact").write_bytes(noise)
        return record_for(spec)

    node = make_node(run=large)

    async def run():
        test = Pool(tmp_path, node)
        async with test.open():
            return await test.run(make_spec())

    _, _, folder = within(run())
    assert (folder / "artifact").read_bytes() == noise
    assert [path.name for path in folder.iterdir()] == ["artifact"]
    assert (node.calls.count("piece"), node.calls.count("drop")) == (2, 1)


def test_files_are_sent_once_to_a_node_that_does_not_see_them(make_node, make_spec, tmp_path, monkeypatch):
    monkeypatch.setattr("seatrial.jobs.ray.runner.is_intact", lambda need, path: str(path) != need.path)
    node, roots = make_node(), []

    async def look(spec, folder, _):
        roots.append(spec.task.root)
        return record_for(spec)

    node.run = look

    async def run():
        test = Pool(tmp_path, node)
        async with test.open():
            spec = make_spec()
            await asyncio.gather(test.run(spec), test.run(spec))
            await test.run(spec)

    within(run())
    assert node.calls.count("complete") == 1
    assert {root.is_relative_to(node.state_folder) for root in roots} == {True}
    assert (roots[0] / "instruction.md").read_text() == "Do it.\n"


def test_a_late_node_gets_work(make_node, make_spec, tmp_path):
    async def run():
        test = Pool(tmp_path, make_node("one"))
        async with test.open():
            test.cluster.members.append(make_node("late"))
            await until(lambda: "late" in test.pool.reports)
            return (await test.run(make_spec(), frozenset({"one"})))[0]

    assert within(run()) == "late"


def test_an_unfit_node_is_named_once_and_gets_nothing(make_node, make_spec, tmp_path):
    nodes = [make_node("fit"), make_node("old", unfit="it has Seatrial 0.0"), make_node("bare", no_sandbox="no way")]

    async def run():
        test = Pool(tmp_path, *nodes)
        async with test.open() as pool:
            await until(lambda: len(pool.unfit) >= 2)
            places = {(await test.run(make_spec(name)))[0] for name in ("add", "sort", "merge")}
        return places, sorted(test.notices)

    places, notices = within(run())
    assert places == {"fit"}
    assert notices == ["node bare gets no trials: no way", "node old gets no trials: it has Seatrial 0.0"]


def test_without_a_fit_node_every_reason_is_said(make_node, tmp_path):
    def refuse(_):
        raise HostUnsupportedError("it cannot limit memory")

    async def run():
        test = Pool(tmp_path, make_node("old", unfit="it has Seatrial 0.0"), make_node("weak"))
        async with test.open(check=refuse):
            pass

    with pytest.raises(HostUnsupportedError) as raised:
        within(run())
    assert "old: it has Seatrial 0.0" in str(raised.value)
    assert "weak: it cannot limit memory" in str(raised.value)


@pytest.mark.parametrize(
    ("error", "kind"),
    [(KeyError("what"), TrialError), (OSError(28, "No space left on device"), HostExhaustedError)],
    ids=["a bug", "a full disk"],
)
def test_what_goes_wrong_there_is_named_with_its_node(make_node, make_spec, tmp_path, error, kind):
    async def fail(spec, folder, _):
        raise error

    async def run():
        test = Pool(tmp_path, make_node(run=fail))
        async with test.open():
            await test.run(make_spec())

    with pytest.raises(kind, match="node one"):
        within(run())


def test_a_cancelled_trial_is_ended_on_its_node(make_node, make_spec, tmp_path):
    hold, began, _ = holding()
    node = make_node(run=hold)

    async def run():
        test = Pool(tmp_path, node)
        async with test.open():
            running = asyncio.ensure_future(test.run(make_spec()))
            await began.wait()
            running.cancel()
            await asyncio.wait((running,))
            return node.calls[-1], [path.name for path in node.state_folder.rglob("log.txt")]

    assert within(run()) == ("drop", [])


def test_agents_are_tried_out_on_a_node(make_node, make_spec, tmp_path):
    async def run():
        test = Pool(tmp_path, make_node(no_preflight="no program"))
        async with test.open() as pool:
            await pool.try_out(PreflightPlan(None, (), {"noop": (make_spec(),)}))

    with pytest.raises(PreflightError, match=r"no program: \['noop'\]"):
        within(run())


def test_files_that_a_node_cannot_take_fail_the_trial_there(make_node, make_spec, tmp_path, monkeypatch):
    monkeypatch.setattr("seatrial.jobs.ray.runner.is_intact", lambda need, path: False)

    async def run():
        test = Pool(tmp_path, make_node())
        async with test.open():
            await test.run(make_spec())

    with pytest.raises(SandboxError, match=r"node one could not take .*add"):
        within(run())


def test_an_error_of_the_block_comes_out_as_it_is(make_node, tmp_path):
    async def run():
        async with Pool(tmp_path, make_node()).open():
            raise SandboxError("mine")

    with pytest.raises(SandboxError, match="mine"):
        within(run())


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
