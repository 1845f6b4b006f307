"""KnownSandbox: a sandbox that hooks reach by its id, with what holds for every command in it just now."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from seatrial.env.sandbox_values import CommandResult
from seatrial.sandbox.api import NO_NETWORK, ExecResult, ExecSpec, Network, Phase, Sandbox
from seatrial.sandbox.transfer import get_file, put_file

Release = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class SandboxView:
    """Where commands and files of hooks go: which sandbox, in whose view, reaching whom."""

    sandbox: Sandbox
    phase: Phase = "agent"
    network: Network = NO_NETWORK
    env: Mapping[str, str] = field(default_factory=dict)
    prepare: Callable[[], Awaitable[None]] | None = None
    """Done once, before the first use."""


@dataclass(eq=False, slots=True)
class KnownSandbox:
    """A sandbox as hooks have it: the agent's view until that has ended, the verifier's while it is laid out and after.

    `release` destroys it.
    """

    view: SandboxView
    release: Release | None = None
    jobs: dict[str, "asyncio.Task[ExecResult]"] = field(default_factory=dict)

    @contextmanager
    def seen_as(self, view: SandboxView) -> Iterator[None]:
        """Another view for the length of a block."""
        before, self.view = self.view, view
        try:
            yield
        finally:
            self.view = before

    async def run(self, spec: ExecSpec) -> ExecResult:
        """Run a command."""
        await self._prepare()
        return await self.view.sandbox.exec(spec)

    def command(
        self, command: str, working_dir: str | None, env: Mapping[str, str] | None, timeout: float | None
    ) -> ExecSpec:
        """A shell command as it is run here."""
        view = self.view
        return ExecSpec(
            ("/bin/sh", "-c", command),
            phase=view.phase,
            env={**view.env, **(env or {})},
            cwd=working_dir,
            timeout_sec=timeout,
            network=view.network,
        )

    async def put(self, path: str, content: bytes, mode: int = 0o644) -> None:
        """Write a file."""
        await self._prepare()
        await put_file(self.view.sandbox, path, content, mode=mode, phase=self.view.phase)

    async def get(self, path: str, limit: int) -> bytes:
        """Read a file."""
        await self._prepare()
        return await get_file(self.view.sandbox, path, limit=limit, phase=self.view.phase)

    async def _prepare(self) -> None:
        prepare = self.view.prepare
        if prepare is not None:
            view = self.view
            self.view = SandboxView(view.sandbox, view.phase, view.network, view.env)
            await prepare()

    async def end_jobs(self, *jobs: str) -> None:
        """End some background jobs, all of them without names."""
        ending = [self.jobs.pop(job) for job in jobs or [*self.jobs] if job in self.jobs]
        for task in ending:
            task.cancel()
        for task in ending:
            with suppress(asyncio.CancelledError, Exception):  # nobody waits for its result any more
                await task


def as_result(ended: ExecResult) -> CommandResult:
    """How a command ended, as hooks have it."""
    return CommandResult(ended.stdout.decode(errors="replace"), ended.stderr.decode(errors="replace"), ended.exit_code)
