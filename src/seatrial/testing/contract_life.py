"""The contract of lifetimes: sandboxes side by side, and what is left when they are gone."""
# ruff: noqa: S101 - assertions are what it is for

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from seatrial.errors import SandboxError
from seatrial.sandbox.api import Sandbox, open_sandbox
from seatrial.sandbox.transfer import get_file, new_archive, put_file
from seatrial.testing.contract_base import Bench, ContractBase, new_mark, scenario

MANY = 8


class LifeContract(ContractBase):
    """Creating and destroying."""

    @scenario
    async def test_many_sandboxes_at_once(self, bench: Bench) -> None:
        """Each has files of its own under the same names."""

        async def live(number: int) -> str:
            async with bench.another() as other:
                await put_file(other.sandbox, f"{other.workdir}/number", b"%d" % number)
                copied = await other.ask("cat number >copy; cat copy copy")
                assert await get_file(other.sandbox, f"{other.workdir}/copy", limit=9) == b"%d" % number
                return copied

        async with asyncio.TaskGroup() as group:
            lives = [group.create_task(live(number)) for number in range(MANY)]
        assert [life.result() for life in lives] == [f"{number}{number}" for number in range(MANY)]

    @scenario
    async def test_destroying_twice_is_fine(self, bench: Bench) -> None:
        """One after the other, and both at once."""
        sandbox = await bench.backend.create(bench.spec)
        async with asyncio.TaskGroup() as group:
            group.create_task(sandbox.destroy())
            group.create_task(sandbox.destroy())
        await sandbox.destroy()

    @scenario
    async def test_a_destroyed_sandbox_refuses_everything(self, bench: Bench) -> None:
        """With an error of ours."""
        box = bench.sandbox
        await box.destroy()
        with new_archive() as archive:
            uses: list[Callable[[], Coroutine[Any, Any, object]]] = [
                lambda: box.exec(bench.command("true")),
                lambda: box.put(bench.workdir, archive),
                lambda: box.get(bench.workdir, archive),
                lambda: box.listen(0),
                box.kill_all,
                box.changes,
                lambda: box.snapshot(bench.scratch / "layer"),
                box.usage,
            ]
            for use in uses:
                with pytest.raises(SandboxError):
                    await use()

    @scenario
    async def test_destroying_ends_a_running_command(self, bench: Bench) -> None:
        """Whoever waits for it is not left waiting, and hears that it was no ordinary end."""
        await bench.ask("mkfifo started")

        async def run() -> int | None:
            try:
                return (await bench.sh("echo x >started; sleep 1000; true")).exit_code
            except SandboxError:
                return -9

        async with asyncio.TaskGroup() as group:
            running = group.create_task(run())
            await bench.ask("cat started")
            await bench.sandbox.destroy()
        assert running.result() == -9

    @scenario
    async def test_nothing_runs_on_after_destroying(self, bench: Bench) -> None:
        """Not even what detached itself."""
        mark = new_mark()
        await bench.leave_running(mark)
        assert len(self.leftovers(mark)) >= 2
        await bench.sandbox.destroy()
        assert self.leftovers(mark) == []

    @scenario
    async def test_leaving_the_backend_destroys_what_is_left(self, bench: Bench) -> None:
        """Forgotten sandboxes cost nobody anything."""
        mark = new_mark()
        async with self.make_backend() as backend:
            sandbox = await backend.create(bench.spec)
            # In a shell that stays: a process that is just becoming another program has no environment to be seen.
            await sandbox.exec(bench.command("/bin/sh", "-c", "(sleep 1000; :) &", env={"MARK": mark}))
            assert self.leftovers(mark) != []
        assert self.leftovers(mark) == []
        with pytest.raises(SandboxError):
            await sandbox.exec(bench.command("true"))

    @scenario
    async def test_tearing_down_survives_being_cancelled_again_and_again(self, bench: Bench) -> None:
        """The first cancellation ends the command, the others hit the teardown at every step of it."""
        mark = new_mark()
        made: list[Sandbox] = []
        ready = asyncio.Event()

        async def live() -> None:
            async with open_sandbox(bench.backend, bench.spec) as sandbox:
                await sandbox.exec(bench.command("mkfifo", "started"))
                made.append(sandbox)
                ready.set()
                await sandbox.exec(
                    bench.command("/bin/sh", "-c", "echo x >started; sleep 1000 & wait", env={"MARK": mark})
                )

        async with asyncio.TaskGroup() as group:
            living = group.create_task(live())
            await ready.wait()
            await made[0].exec(bench.command("cat", "started"))
            while not living.done():
                living.cancel()
                await asyncio.sleep(0)
        assert living.cancelled()
        assert self.leftovers(mark) == []
        with pytest.raises(SandboxError):
            await made[0].exec(bench.command("true"))
