"""The null sandbox does nothing, but that like a sandbox."""

import asyncio

import pytest

from seatrial.errors import SandboxError
from seatrial.model.record import FileChanges, LimitSpec
from seatrial.sandbox.api import ExecSpec, SandboxBackend, SandboxSpec, open_sandbox, run_shell
from seatrial.sandbox.transfer import get_file, put_file
from seatrial.testing.null import NullBackend


def test_everything_succeeds_and_nothing_is_kept(tmp_path):
    async def scenario() -> None:
        backend: SandboxBackend = NullBackend({"/logs/verifier/reward.txt": b"1.0"})
        async with backend, open_sandbox(backend, SandboxSpec(limits=LimitSpec(pids=9))) as sandbox:
            assert sandbox.limits_enforced == LimitSpec(pids=9)
            await put_file(sandbox, "/app/file", b"x")
            assert (await run_shell(sandbox, "exit 1")).exit_code == 0
            assert await get_file(sandbox, "/logs/verifier/reward.txt", limit=9) == b"1.0"
            with pytest.raises(FileNotFoundError):
                await get_file(sandbox, "/app/file", limit=9)
            (await sandbox.listen(80)).close()
            await sandbox.kill_all()
            await sandbox.snapshot(tmp_path / "layer")
            assert await sandbox.changes() == FileChanges()
            assert (await sandbox.usage()).disk_bytes is None
        with pytest.raises(SandboxError, match="destroyed"):
            await sandbox.exec(ExecSpec(("true",)))

    asyncio.run(scenario())
