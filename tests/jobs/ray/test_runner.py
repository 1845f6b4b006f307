"""A runner: each call may be lost and made again, what came out is kept until it is fetched, nothing stays behind."""

import asyncio
import io
import os
from collections.abc import Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from seatrial.errors import HostExhaustedError, SandboxError
from seatrial.jobs.ray.archives import unpack_archive
from seatrial.jobs.ray.delivery import needs_of
from seatrial.jobs.ray.runner import Runner
from seatrial.jobs.ray.wire import (
    INLINE_BYTES,
    Happened,
    NodeReport,
    RoomAgain,
    RunnerSettings,
    TrialEnded,
    read_news,
    write_spec,
)
from seatrial.model.job import ModelOptions, TrialOptions
from seatrial.trial.log import failed_record
from tests.jobs.samples import FakeTrials, record_for

SETTINGS = RunnerSettings(trial=TrialOptions(), model=ModelOptions()).model_dump_json().encode()


def within(work: Coroutine[Any, Any, Any]) -> Any:
    async def limited():
        async with asyncio.timeout(60):
            return await work

    return asyncio.run(limited())


@asynccontextmanager
async def settled(node, *specs):
    """A runner that has its settings and the files of some trials."""
    runner = Runner(node.state_folder, node.open_trials)
    await runner.settle(SETTINGS)
    assert await runner.lacks([need.model_dump_json().encode() for spec in specs for need in needs_of(spec)]) == []
    try:
        yield runner
    finally:
        await runner.close()


async def until_ended(runner: Runner, seen: int = 0) -> tuple[list[Any], int, bytes]:
    """News up to the first end of a trial, the number of the last, and the archive that came along."""
    found: list[Any] = []
    while not (found and isinstance(found[-1], TrialEnded)):
        seen, batch = await runner.news(seen)
        found += [read_news(data) for data, _ in batch]
    return found, seen, batch[-1][1]


def test_a_trial_runs_and_what_it_left_comes_with_its_result(make_node, make_spec, tmp_path):
    async def run():
        spec = make_spec()
        async with settled(make_node(), spec) as runner:
            await runner.start("1.add", write_spec(spec))
            return await until_ended(runner)

    found, _, archive = within(run())
    assert [type(each) for each in found] == [Happened, TrialEnded]
    assert found[0].phase.phase == "agent"
    assert (found[1].lease, found[1].record.trial_id) == ("1.add", "add.noop.1")
    unpack_archive(io.BytesIO(archive), tmp_path / "add", found[1].content)
    assert (tmp_path / "add" / "agent" / "stdout.txt").read_text() == "try 1\n"


def test_a_lease_is_carried_out_once_however_often_it_is_given(make_node, make_spec):
    async def run():
        spec, trials = make_spec(), FakeTrials()
        async with settled(make_node(run=trials), spec) as runner:
            await runner.start("1.add", write_spec(spec))
            await until_ended(runner)
            await runner.start("1.add", write_spec(spec))
            await runner.start("2.add", write_spec(spec))
            await until_ended(runner, 2)
        return trials.ran

    assert within(run()) == ["add.noop.1"] * 2


def test_what_is_large_is_kept_until_it_was_fetched(make_node, make_spec, tmp_path):
    noise = os.urandom(2 * INLINE_BYTES)

    async def large(spec, folder: Path, _):
        (folder / "artifact").write_bytes(noise)
        return record_for(spec)

    async def run():
        spec = make_spec()
        async with settled(make_node(run=large), spec) as runner:
            await runner.start("1.add", write_spec(spec))
            found, seen, inline = await until_ended(runner)
            asking = asyncio.ensure_future(runner.news(seen))  # by which the news were seen, but not what was left
            await asyncio.sleep(0)
            data = b""
            while piece := await runner.piece("1.add", len(data)):
                data += piece
            again = await runner.piece("1.add", 0)
            await runner.drop("1.add")
            asking.cancel()
            return found[-1], inline, data, again

    ended, inline, data, again = within(run())
    assert inline == b""
    assert len(data) == ended.size > INLINE_BYTES
    assert data.startswith(again)
    (tmp_path / "out").mkdir()
    unpack_archive(io.BytesIO(data), tmp_path / "out", ended.content)
    assert (tmp_path / "out" / "artifact").read_bytes() == noise


def test_a_trial_that_fails_in_an_odd_way_is_no_concern_of_the_others(make_node, make_spec):
    async def odd(spec, folder, _):
        if spec.task.id == "odd":
            raise KeyError("what")
        return record_for(spec)

    async def run():
        specs = [make_spec("odd"), make_spec("add")]
        async with settled(make_node(run=odd), *specs) as runner:
            await runner.start("1.odd", write_spec(specs[0]))
            first, seen, _ = await until_ended(runner)
            await runner.start("2.add", write_spec(specs[1]))
            second, *_ = await until_ended(runner, seen)
        return first[-1], second[-1]

    first, second = within(run())
    assert (first.record, first.error) == (None, "KeyError: 'what'")
    assert second.record is not None


def test_a_dropped_trial_is_ended_and_leaves_nothing(make_node, make_spec, tmp_path):
    began, ended = asyncio.Event(), []

    async def endless(spec, folder, _):
        try:
            began.set()
            await asyncio.Event().wait()
        finally:
            ended.append(folder)

    async def run():
        spec, node = make_spec(), make_node(run=endless)
        async with settled(node, spec) as runner:
            await runner.start("1.add", write_spec(spec))
            await began.wait()
            await runner.drop("1.add")
            await runner.drop("1.add")
            return [folder.exists() for folder in ended]

    assert within(run()) == [False]


def test_closing_ends_all_and_leaves_only_files_that_are_kept(make_node, make_spec):
    began = asyncio.Event()

    async def endless(spec, folder, _):
        began.set()
        await asyncio.Event().wait()

    async def run():
        spec, node = make_spec(), make_node(run=endless)
        async with settled(node, spec) as runner:
            await runner.start("1.add", write_spec(spec))
            await began.wait()
        return sorted(path.name for path in node.state_folder.rglob("*"))

    assert within(run()) == ["files"]


def test_a_shortage_is_told_and_so_is_its_end(make_node, make_spec):
    def short(spec, _):
        return failed_record(spec, HostExhaustedError("the disk is full"))

    async def run():
        spec = make_spec()
        async with settled(make_node(run=FakeTrials(short)), spec) as runner:
            await runner.start("1.add", write_spec(spec))
            found, seen, _ = await until_ended(runner)
            _, after = await runner.news(seen)
        return found[-1].shortage, [type(read_news(data)) for data, _ in after]

    assert within(run()) == ("the disk is full", [RoomAgain])


@pytest.mark.parametrize("error", [SandboxError("no namespaces"), OSError("no disk")])
def test_a_node_where_nothing_runs_says_why(make_node, error):
    @asynccontextmanager
    async def broken(*_):
        raise error
        yield

    async def run():
        runner = Runner(make_node().state_folder, broken)
        try:
            return NodeReport.model_validate_json(await runner.settle(SETTINGS))
        finally:
            await runner.close()

    report = within(run())
    assert (report.capabilities, report.reason) == (None, str(error))


def test_what_a_killed_runner_left_is_swept_by_the_next(make_node, make_spec):
    async def run():
        node = make_node()
        left = node.state_folder / "seatrial-scratch-1-00000000" / "x"
        left.mkdir(parents=True)
        (left / "artifact").write_text("of a trial")
        async with settled(node):
            return left.exists()

    assert within(run()) is False
