"""What the parts of the sandbox contract share: the hooks a backend fills in, and the bench each scenario works at."""
# ruff: noqa: S101 - assertions are what it is for

import asyncio
import io
import tarfile
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import pytest

from seatrial.sandbox.api import (
    MAX_ARCHIVE_BYTES,
    Capabilities,
    ExecResult,
    ExecSpec,
    Network,
    Sandbox,
    SandboxBackend,
    SandboxSpec,
    open_sandbox,
)
from seatrial.sandbox.transfer import new_archive

TIMEOUT_SEC = 60.0
"""How long anything may take before it counts as hanging; no scenario waits for it when all is well."""


@dataclass(frozen=True, slots=True)
class Bench:
    """A fresh sandbox with everything a scenario needs around it."""

    backend: SandboxBackend
    capabilities: Capabilities
    spec: SandboxSpec
    sandbox: Sandbox
    scratch: Path
    """A directory of the host that is removed afterwards."""

    @property
    def network(self) -> Network:
        """The most closed network this backend has."""
        return Network("none" if "none" in self.capabilities.networks else "host")

    @property
    def workdir(self) -> str:
        """Where commands start; scenarios use relative paths, so that a pretended root will do."""
        return self.spec.workdir

    def command(self, *argv: str, **changes: Any) -> ExecSpec:
        """A command that may be run here; `changes` are fields of ExecSpec."""
        return replace(ExecSpec(argv, network=self.network, timeout_sec=TIMEOUT_SEC), **changes)

    async def run(self, *argv: str, **changes: Any) -> ExecResult:
        """Run a command."""
        return await self.sandbox.exec(self.command(*argv, **changes))

    async def sh(self, script: str, **changes: Any) -> ExecResult:
        """Run a shell script, as POSIX as busybox."""
        return await self.run("/bin/sh", "-c", script, **changes)

    async def ask(self, script: str, **changes: Any) -> str:
        """What a shell script that must succeed prints, without the line end."""
        result = await self.sh(script, **changes)
        assert result.exit_code == 0, f"{script!r} ended with {result}"
        return result.stdout.decode().rstrip("\n")

    async def leave_running(self, mark: str) -> None:
        """Leave two processes behind, one in a session of its own if that can be had, with a mark in their environment.

        Both are shells that stay: a process that is just becoming another program has no environment to be seen.
        """
        detach = "setsid " if (await self.sh("command -v setsid")).exit_code == 0 else ""
        await self.ask("mkfifo left")
        stay = "sh -c 'echo $$ >left; sleep 1000; :' >/dev/null 2>&1 & cat left"
        for prefix in ("", detach):
            await self.ask(prefix + stay, env={"MARK": mark})

    async def put(self, directory: str, *members: tuple[tarfile.TarInfo, bytes]) -> None:
        """Unpack the given members below a directory."""
        with new_archive() as archive:
            with tarfile.open(fileobj=archive, mode="w") as tar:
                for info, content in members:
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))
            archive.seek(0)
            await self.sandbox.put(directory, archive)

    async def get(self, path: str, limit: int = MAX_ARCHIVE_BYTES) -> dict[str, tuple[tarfile.TarInfo, bytes]]:
        """The members of what is packed from a path, by name."""
        with new_archive() as archive:
            await self.sandbox.get(path, archive, limit=limit)
            archive.seek(0)
            with tarfile.open(fileobj=archive, mode="r:") as tar:
                return {info.name: (info, _content(tar, info)) for info in tar}

    def need(self, name: str, *, there: bool) -> None:
        """Skip the scenario, with the backend's own reason, unless the backend can do the thing."""
        if not there:
            self.skip(name)

    def skip(self, name: str) -> NoReturn:
        """Skip the scenario for want of a thing."""
        missing = self.capabilities.missing.get(name, "it does not say why")
        pytest.skip(f"the {self.capabilities.backend} backend has no {name}: {missing}")

    @asynccontextmanager
    async def another(self, **changes: Any) -> AsyncIterator["Bench"]:
        """A second sandbox, made from a changed spec."""
        spec = replace(self.spec, **changes)
        async with open_sandbox(self.backend, spec) as sandbox:
            yield replace(self, spec=spec, sandbox=sandbox)


def _content(tar: tarfile.TarFile, info: tarfile.TarInfo) -> bytes:
    content = tar.extractfile(info) if info.isreg() else None
    return content.read() if content else b""


def member(
    name: str, content: bytes = b"", *, kind: bytes = tarfile.REGTYPE, mode: int = 0o644, link: str = ""
) -> tuple[tarfile.TarInfo, bytes]:
    """A member of an archive, owned by root."""
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.linkname = kind, mode, link
    return info, content


def new_mark() -> str:
    """A word that nothing else on the machine contains."""
    return f"mark-{uuid.uuid4().hex}"


class ContractBase:
    """The hooks. A backend's test class fills in `make_backend`, and the others where its ways differ."""

    ambient_env: frozenset[str] = frozenset({"PATH", "HOME", "USER", "LANG", "HOSTNAME", "SANDBOX_ROOT"})
    """The variables a backend may set by itself; any other that nobody asked for breaks the contract."""

    def make_backend(self) -> SandboxBackend:
        """A new backend, not entered yet."""
        raise NotImplementedError

    def open_backend(self) -> AbstractAsyncContextManager[SandboxBackend]:
        """The backend of one scenario: a new one, unless a class keeps one open because starting it takes long."""
        return self.make_backend()

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a scenario to its end; a class that keeps a backend open does so in the event loop of that one."""
        asyncio.run(work)

    def make_spec(self) -> SandboxSpec:
        """What most scenarios run in: needs /bin/sh and the usual small tools, those of busybox are enough."""
        return SandboxSpec()

    def leftovers(self, mark: str) -> Sequence[int]:
        """Processes of the machine with a mark in their environment. A backend on another machine asks there."""
        return [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/environ") if mark in _read(path)]

    async def play(self, scenario: Callable[[Any, Bench], Coroutine[Any, Any, None]]) -> None:
        """Run a scenario at a bench of its own."""
        with tempfile.TemporaryDirectory() as scratch:
            async with asyncio.timeout(TIMEOUT_SEC), self.open_backend() as backend:
                capabilities, spec = await backend.probe(), self.make_spec()
                async with open_sandbox(backend, spec) as sandbox:
                    await scenario(self, Bench(backend, capabilities, spec, sandbox, Path(scratch)))


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:
        return ""


C = TypeVar("C", bound=ContractBase)


def scenario(test: Callable[[C, Bench], Coroutine[Any, Any, None]]) -> Callable[[C], None]:
    """Make a coroutine method that works at a bench into a test that pytest can call, without any plug-in."""

    def run(self: C) -> None:
        self.run(self.play(test))

    # Not functools.wraps: pytest would look through it and take the bench for a fixture.
    run.__name__, run.__qualname__, run.__doc__ = test.__name__, test.__qualname__, test.__doc__
    return run
