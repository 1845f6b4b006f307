"""A runner: each call may be lost and made again, what came out is kept until it is fetched, nothing stays behind."""

import asyncio
import io
import os
from collections.abc import Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from seatrial.agents.files import lock_files
from seatrial.errors import HostExhaustedError, SandboxError
from seatrial.jobs.ray.archives import unpack_archive
from seatrial.jobs.ray.delivery import needs_of, pack_need
from seatrial.jobs.ray.runner import FORGOTTEN_SEC, NodeFiles, Outbox, Runner
from seatrial.jobs.ray.wire import (
    INLINE_BYTES,
    PIECE_BYTES,
    FileNeed,
    Happened,
    NodeReport,
    RoomAgain,
    RunnerSettings,
    TrialEnded,
    digest_of,
    read_news,
    write_spec,
)
from seatrial.model.events import Notice
from seatrial.model.job import AgentFiles, ModelOptions, TrialOptions
from seatrial.tasks.layout import digest_folder
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


def happened(text: str) -> Happened:
    return Happened(lease="1.add", notice=Notice(text))


def texts(batch: list[tuple[bytes, bytes]]) -> list[str]:
    return [news.notice.text for data, _ in batch if isinstance(news := read_news(data), Happened) and news.notice]


def test_news_are_given_again_until_they_were_seen():
    async def run():
        box = Outbox()
        box.post(happened("one"))
        box.post(happened("two"))
        lost, first = await box.collect(0, 10)
        seen, second = await box.collect(0, 10)
        box.post(happened("three"))
        _, third = await box.collect(seen, 10)
        return lost, texts(first), seen, texts(second), texts(third)

    assert asyncio.run(run()) == (2, ["one", "two"], 2, ["one", "two"], ["three"])


def test_who_asks_too_early_gets_the_next_at_once():
    async def run():
        box = Outbox()
        asking = asyncio.ensure_future(box.collect(0, 60))
        await asyncio.sleep(0)
        box.post(happened("at last"))
        return texts((await asking)[1])

    assert asyncio.run(run()) == ["at last"]


def test_what_is_only_shown_waits_for_what_matters():
    async def run():
        box = Outbox()
        asking = asyncio.ensure_future(box.collect(0, 60))
        box.mention(happened("starts"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        early = asking.done()
        box.post(happened("ends"))
        return early, texts((await asking)[1])

    assert asyncio.run(run()) == (False, ["starts", "ends"])


def test_what_is_only_shown_is_not_kept_for_long():
    async def run():
        box = Outbox()
        box.mention(happened("starts"))
        seen, batch = await box.collect(0, 60)
        return texts(batch), await box.collect(seen, 0.001)

    assert asyncio.run(run()) == (["starts"], (1, []))


def test_after_a_while_without_news_there_are_none():
    assert asyncio.run(Outbox().collect(0, 0.001)) == (0, [])


def test_one_message_holds_no_more_than_it_may():
    async def run():
        box = Outbox()
        for number in range(10):
            box.post(TrialEnded(lease=f"{number}.add"), bytes(PIECE_BYTES // 4))
        seen = 0
        sizes: list[int] = []
        while len(sizes) < 10 and sum(sizes) < 10:
            seen, batch = await box.collect(seen, 10)
            assert sum(len(data) + len(archive) for data, archive in batch) <= PIECE_BYTES
            sizes.append(len(batch))
        return sizes

    assert asyncio.run(run()) == [3, 3, 3, 1]


ELSEWHERE = "/not/on/this/machine"


@pytest.fixture
def files(tmp_path: Path):
    found = NodeFiles(tmp_path / "files")
    yield found
    found.close()


@pytest.fixture
def task(make_task) -> FileNeed:
    root = make_task("sort", files={"solution/solve.sh": "#!/bin/sh\n", ".git/HEAD": "ref\n"})
    return FileNeed(kind="task", digest=digest_folder(root), path=str(root))


def elsewhere(need: FileNeed) -> FileNeed:
    return need.model_copy(update={"path": ELSEWHERE})


def deliver(files: NodeFiles, need: FileNeed, size: int = 100) -> Path:
    """What the coordinator does, in small pieces."""
    with pack_need(need) as archive:
        data = archive.read()
    for offset in range(0, len(data), size):
        files.receive(need.digest, offset, data[offset : offset + size])
    return files.complete(elsewhere(need))


def test_a_folder_at_the_same_path_is_not_copied(files, task):
    assert files.find(task) == Path(task.path)


def test_other_content_at_the_same_path_does_not_do(files, task):
    Path(task.path, "instruction.md").write_text("Do something else.\n")
    assert files.find(task) is None


def test_a_task_arrives_in_pieces_and_stays(files, task, tmp_path):
    assert files.find(elsewhere(task)) is None
    arrived = deliver(files, task)
    assert digest_folder(arrived) == task.digest
    assert not (arrived / ".git").exists()
    another_run = NodeFiles(tmp_path / "files")
    assert another_run.find(elsewhere(task)) == arrived
    another_run.close()


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_an_agents_files_arrive(files, kind, tmp_path):
    source = tmp_path / "mine" / "agent.py"
    source.parent.mkdir()
    source.write_text("print()\n")
    locked = lock_files(AgentFiles(source=str(source if kind == "file" else source.parent)))
    assert locked.digest
    name = "agent.py" if kind == "file" else None
    arrived = deliver(files, FileNeed(kind="agent", digest=locked.digest, path=locked.source, name=name))
    assert (arrived if kind == "file" else arrived / "agent.py").read_text() == "print()\n"


def test_a_file_that_options_name_arrives_under_its_name(files, tmp_path):
    (tmp_path / "answers.jsonl").write_text("{}\n")
    need = FileNeed(kind="file", digest=digest_of(b"{}\n"), path=str(tmp_path / "answers.jsonl"), name="answers.jsonl")
    assert deliver(files, need).name == "answers.jsonl"


def test_what_is_not_what_was_promised_is_refused_and_gone(files, task, tmp_path):
    other = task.model_copy(update={"digest": "0" * 64})
    with pytest.raises(SandboxError, match="other files arrived"):
        deliver(files, other)
    assert files.find(elsewhere(other)) is None
    assert not (tmp_path / "files" / other.digest).exists()


def test_two_runs_may_receive_the_same_at_once(files, task, tmp_path):
    another_run = NodeFiles(tmp_path / "files")
    with pack_need(task) as archive:
        data = archive.read()
    for each in (files, another_run):
        each.receive(task.digest, 0, data)
    assert files.complete(elsewhere(task)) == another_run.complete(elsewhere(task))
    another_run.close()


def test_a_piece_may_come_twice(files, task):
    with pack_need(task) as archive:
        data = archive.read()
    for offset in (0, 50, 50, 100):
        files.receive(task.digest, offset, data[offset : offset + 50] if offset < 100 else data[100:])
    assert digest_folder(files.complete(elsewhere(task))) == task.digest


def test_what_nobody_has_needed_for_long_goes(files, task):
    arrived = deliver(files, task)
    used = arrived.parent.stat().st_mtime
    assert files.sweep(used + FORGOTTEN_SEC - 60) == []
    assert files.sweep(used + FORGOTTEN_SEC + 60) == [task.digest]
    assert not arrived.exists()


def test_a_closed_one_leaves_only_what_is_complete(files, task, tmp_path):
    files.receive(task.digest, 0, io.BytesIO(b"half").getvalue())
    files.close()
    assert list((tmp_path / "files").iterdir()) == []
