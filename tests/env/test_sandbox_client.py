"""SandboxClient: files and commands in sandboxes by their ids, background jobs, and ids that lead nowhere."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from seatrial.env.sandbox_client import BackgroundJob, LoopResource, SandboxClient
from seatrial.errors import SandboxError
from seatrial.sandbox.api import Network, SandboxSpec
from seatrial.testing.fake import FakeBackend, answer


def using(work, commands=lambda spec, sandbox: answer("out", stderr="err", exit_code=3)):
    """Run `work(client, sandbox id, sandbox)` with a sandbox in memory."""

    async def run():
        sandbox = await FakeBackend(commands).create(SandboxSpec())
        client = SandboxClient()
        sandbox_id = client.add(sandbox, Network("public"), {"A": "1"})
        return await work(client, sandbox_id, sandbox)

    return asyncio.run(run())


def test_a_command_that_fails_is_data():
    async def work(client, sandbox_id, _):
        return await client.execute_command(sandbox_id, "false")

    result = using(work)
    assert (result.stdout, result.stderr, result.exit_code, result.timed_out) == ("out", "err", 3, False)


def test_a_command_has_the_variables_and_the_network_of_its_sandbox():
    async def work(client, sandbox_id, sandbox):
        client.set_variables(sandbox_id, {"A": "1", "B": "2"})
        await client.execute_command(sandbox_id, "x", working_dir="/srv", env={"B": "3"}, timeout=5)
        return sandbox.executed[-1]

    spec = using(work)
    assert (spec.env, spec.cwd, spec.timeout_sec, spec.network) == ({"A": "1", "B": "3"}, "/srv", 5, Network("public"))


def test_a_command_whose_time_is_over_has_no_exit_code():
    async def for_ever(spec, sandbox):
        await asyncio.Event().wait()

    async def work(client, sandbox_id, _):
        return await client.execute_command(sandbox_id, "sleep", timeout=0.01)

    result = using(work, for_ever)
    assert (result.exit_code, result.timed_out) == (None, True)


def test_files_go_in_and_out(tmp_path):
    (tmp_path / "agent.py").write_text("print(1)")

    async def work(client, sandbox_id, sandbox):
        await client.upload_file(sandbox_id, "/app/agent.py", str(tmp_path / "agent.py"))
        await client.upload_content(sandbox_id, "é", "/app/deep/er.txt")
        await client.download_file(sandbox_id, "/app/deep/er.txt", tmp_path / "back.txt")
        return await client.read_file(sandbox_id, "/app/agent.py"), sandbox.files

    text, files = using(work)
    assert text == "print(1)"
    assert files["/app/deep/er.txt"] == (tmp_path / "back.txt").read_bytes() == "é".encode()


def test_a_file_that_is_not_there_says_so(tmp_path):
    async def work(client, sandbox_id, _):
        with pytest.raises(FileNotFoundError):
            await client.read_file(sandbox_id, "/nowhere")
        with pytest.raises(FileNotFoundError):
            await client.upload_file(sandbox_id, "/app/x", tmp_path / "nowhere")
        with pytest.raises(SandboxError, match="absolute paths"):
            await client.upload_content(sandbox_id, "x", "app/x")

    using(work)


def test_a_background_job_runs_on_until_it_is_done():
    done = asyncio.Event()

    async def wait(spec, sandbox):
        await done.wait()
        return answer("done", exit_code=7)

    async def work(client, sandbox_id, _):
        job = await client.start_background_job(sandbox_id, "work")
        before = await client.get_background_job(sandbox_id, job)
        late = await client.run_background_job(sandbox_id, "work", timeout=0.001)
        done.set()
        return before, late, await client.wait_for_background_job(sandbox_id, job)

    before, late, after = using(work, wait)
    assert (before.completed, late.completed, before.exit_code) == (False, False, None)
    assert (after.completed, after.exit_code, after.stdout, after.stderr) == (True, 7, "done", "")


def test_background_jobs_end_with_their_sandbox():
    ended = []

    async def for_ever(spec, sandbox):
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(spec.argv[2])

    async def work(client, sandbox_id, _):
        await client.start_background_job(sandbox_id, "one")
        await client.start_background_job(sandbox_id, "two")
        await asyncio.sleep(0)
        await client.remove(sandbox_id)
        await client.remove(sandbox_id)
        return list(ended)

    assert using(work, for_ever) == ["one", "two"]


def test_unknown_and_dead_sandboxes_are_told_apart():
    async def work(client, sandbox_id, _):
        with pytest.raises(SandboxError, match=r"no sandbox 'sandbox-x'; state\['sandbox_id'\]"):
            await client.execute_command("sandbox-x", "true")
        with pytest.raises(SandboxError, match="no background job 'x'"):
            await client.get_background_job(sandbox_id, BackgroundJob("x", sandbox_id, ""))
        await client.remove(sandbox_id)
        with pytest.raises(SandboxError, match="is gone: its rollout has ended"):
            await client.read_file(sandbox_id, "/x")

    using(work)


class Thing:
    """Something to hold, which notes what happens to it."""

    def __init__(self, fails: str = "") -> None:
        self.events: list[str] = []
        self._fails = fails

    @asynccontextmanager
    async def opened(self):
        if self._fails == "open":
            raise OSError("cannot be opened")
        self.events.append("open")
        try:
            yield self
        finally:
            self.events.append("closed")
        if self._fails == "close":
            raise OSError("cannot be closed")


def test_it_is_open_until_it_is_closed():
    thing = Thing()

    async def hold():
        held = LoopResource(thing.opened())
        assert await held.open() is thing
        assert thing.events == ["open"]
        await held.close()
        await held.close()

    asyncio.run(hold())
    assert thing.events == ["open", "closed"]


def test_the_end_of_the_loop_closes_it():
    thing = Thing()

    async def hold():
        await LoopResource(thing.opened()).open()

    asyncio.run(hold())
    assert thing.events == ["open", "closed"]


@pytest.mark.parametrize("when", ["open", "close"])
def test_what_goes_wrong_is_raised(when):
    async def hold():
        held = LoopResource(Thing(when).opened())
        await held.open()
        await held.close()

    with pytest.raises(OSError, match=f"cannot be {when}ed|cannot be {when}d"):
        asyncio.run(hold())


def test_one_who_is_cancelled_while_it_opens_leaves_nothing_open():
    opening, events = asyncio.Event(), []

    @asynccontextmanager
    async def slow():
        try:
            opening.set()
            await asyncio.Event().wait()
            yield
        finally:
            events.append("closed")

    async def hold():
        task = asyncio.ensure_future(LoopResource(slow()).open())
        await opening.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert events == ["closed"]

    asyncio.run(hold())
