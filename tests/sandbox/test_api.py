"""A sandbox for the length of a block, and the shell commands everyone needs."""

import asyncio

import pytest

from seatrial.errors import SandboxError
from seatrial.sandbox.api import ExecResult, ExecSpec, SandboxSpec, open_sandbox, run_shell
from seatrial.testing.fake import FakeBackend, FakeSandbox, answer


def test_the_sandbox_is_gone_after_the_block():
    backend = FakeBackend({"true": answer()})

    async def scenario() -> None:
        async with open_sandbox(backend, SandboxSpec(workdir="/place")) as sandbox:
            assert not backend.sandboxes[0].destroyed
            assert (await sandbox.exec(ExecSpec(("true",)))).exit_code == 0

    asyncio.run(scenario())
    assert backend.sandboxes[0].spec.workdir == "/place"
    assert backend.sandboxes[0].journal == ["exec true", "destroy"]


def test_an_error_in_the_block_goes_through():
    backend = FakeBackend({})

    async def scenario() -> None:
        async with open_sandbox(backend, SandboxSpec()):
            raise LookupError("of the caller")

    with pytest.raises(LookupError, match="of the caller"):
        asyncio.run(scenario())
    assert backend.sandboxes[0].destroyed


def test_a_sandbox_that_cannot_be_made_is_not_destroyed():
    backend = FakeBackend({}, fail_on={"create": SandboxError("no room")})

    async def scenario() -> None:
        async with open_sandbox(backend, SandboxSpec()):
            pytest.fail("the block must not be entered")

    with pytest.raises(SandboxError, match="no room"):
        asyncio.run(scenario())
    assert not backend.sandboxes


def test_a_sandbox_that_cannot_be_destroyed_is_heard_of():
    backend = FakeBackend({}, fail_on={"destroy": SandboxError("still busy")})

    async def scenario() -> None:
        async with open_sandbox(backend, SandboxSpec()):
            pass

    with pytest.raises(SandboxError, match="still busy"):
        asyncio.run(scenario())


def test_a_cancelled_block_destroys():
    async def wait_for_ever(spec: ExecSpec, sandbox: FakeSandbox) -> ExecResult:
        started.set()
        await asyncio.Event().wait()
        return answer()

    started = asyncio.Event()
    backend = FakeBackend(wait_for_ever)

    async def live() -> None:
        async with open_sandbox(backend, SandboxSpec()) as sandbox:
            await run_shell(sandbox, "sleep 1000")

    async def scenario() -> None:
        async with asyncio.TaskGroup() as group:
            living = group.create_task(live())
            await started.wait()
            living.cancel()
        assert living.cancelled()

    asyncio.run(scenario())
    assert backend.sandboxes[0].journal[-1] == "destroy"


def test_a_shell_command_line():
    backend = FakeBackend({"make | tee log": answer("built\n", exit_code=2)})

    async def scenario() -> ExecResult:
        async with open_sandbox(backend, SandboxSpec()) as sandbox:
            return await run_shell(sandbox, "make | tee log", phase="verifier", timeout_sec=5)

    result = asyncio.run(scenario())
    assert (result.exit_code, result.stdout) == (2, b"built\n")
    (spec,) = backend.sandboxes[0].executed
    assert (spec.argv, spec.phase, spec.timeout_sec) == (("/bin/sh", "-c", "make | tee log"), "verifier", 5)
