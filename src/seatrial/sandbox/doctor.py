"""The steps of a sandbox's life, tried for real: what each kind of sandbox tells `seatrial doctor` is made of these.

What only one kind needs, and the order, is in that kind's own module.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from seatrial.errors import SeatrialError
from seatrial.sandbox.api import ExecSpec, Network, Sandbox, run_shell
from seatrial.sandbox.transfer import get_file, put_file

_TIMEOUT_SEC = 30.0


@dataclass(frozen=True, slots=True)
class HostFinding:
    """One thing that was tried; `fix` is the command or change that would make it work."""

    step: str
    status: Literal["works", "missing", "fails"]
    detail: str
    fix: str = ""


async def try_sandbox(sandbox: Sandbox) -> AsyncIterator[HostFinding]:
    """Do in a sandbox what trials do in theirs, one finding after the other."""
    for step, attempt in _STEPS.items():
        yield await try_step(step, attempt(sandbox))


async def try_step(step: str, attempt: Awaitable[str]) -> HostFinding:
    """One finding: what the attempt returns tells what works; that it fails or takes too long, that it does not."""
    try:
        async with asyncio.timeout(_TIMEOUT_SEC):
            return HostFinding(step, "works", await attempt)
    except (SeatrialError, OSError, TimeoutError) as error:
        return HostFinding(step, "fails", str(error) or type(error).__name__, "please report this with the line above")


async def _run(sandbox: Sandbox) -> str:
    result = await run_shell(sandbox, "echo $((6 * 7))")
    return expect(result.stdout == b"42\n", f"a shell answers in {result.duration_sec * 1000:.0f} ms")


async def _files(sandbox: Sandbox) -> str:
    await put_file(sandbox, "/app/doctor.txt", b"written from outside")
    content = await get_file(sandbox, "/app/doctor.txt", limit=1000)
    changes = await sandbox.changes()
    return expect(content == b"written from outside" and "/app/doctor.txt" in changes.added, "in, out, and noticed")


async def _guard(sandbox: Sandbox) -> str:
    await put_file(sandbox, "/tests/secret", b"", phase="verifier")
    seen = await run_shell(sandbox, "test -e /tests/secret", phase="verifier")
    hidden = await run_shell(sandbox, "test -e /tests/secret")
    return expect((seen.exit_code, hidden.exit_code) == (0, 1), "the verifier's files are hidden from the agent")


async def _listener(sandbox: Sandbox) -> str:
    with await sandbox.listen(0) as listener:
        return expect(listener.getsockname()[1] > 0, "a socket listens inside and is accepted outside")


async def _isolation(sandbox: Sandbox) -> str:
    result = await run_shell(sandbox, "cat /proc/net/dev")
    devices = {line.split(":")[0].strip() for line in result.stdout.decode().splitlines() if ":" in line}
    return expect(devices == {"lo"}, "the sandbox has a loopback device and nothing else")


async def _proxy(sandbox: Sandbox) -> str:
    network = Network("allowlist", ("example.org",))
    result = await sandbox.exec(ExecSpec(("/bin/sh", "-c", "echo $HTTPS_PROXY"), network=network))
    return expect(result.stdout.startswith(b"http://"), "listed hosts are reached through our proxy")


def expect(truth: bool, said: str) -> str:  # noqa: FBT001 - it reads as a sentence where it is used
    """What has been said, if it is true. Raises OSError."""
    if not truth:
        raise OSError(f"not as it should be: {said}")
    return said


_STEPS: dict[str, Callable[[Sandbox], Awaitable[str]]] = {
    "commands": _run,
    "files": _files,
    "guarded phases": _guard,
    "listener": _listener,
    "no network": _isolation,
    "allow list": _proxy,
}
