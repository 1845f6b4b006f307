"""SandboxClient: the sandboxes of rollouts by their ids, for hooks that put files into them and run commands there."""

import asyncio
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from seatrial.concurrency import finish
from seatrial.errors import SandboxError
from seatrial.sandbox.api import NO_NETWORK, ExecResult, ExecSpec, Network, Sandbox
from seatrial.sandbox.transfer import get_file, put_file

MAX_FILE_BYTES = 256 * 2**20


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command ended. `exit_code` is None when its time ran out, negative for a signal."""

    stdout: str
    stderr: str
    exit_code: int | None

    @property
    def timed_out(self) -> bool:
        """Whether the command was ended because its time was over."""
        return self.exit_code is None


@dataclass(frozen=True, slots=True)
class BackgroundJob:
    """A command that runs on while others do."""

    job_id: str
    sandbox_id: str
    command: str


@dataclass(frozen=True, slots=True)
class BackgroundJobStatus:
    """How far a background job has come; what it wrote and how it ended is known once it is completed."""

    job_id: str
    completed: bool
    exit_code: int | None = None
    stdout: str | None = None
    stderr: str | None = None


@dataclass(eq=False, slots=True)
class _Known:
    """A sandbox with what holds for every command in it."""

    sandbox: Sandbox
    network: Network
    env: Mapping[str, str]
    jobs: dict[str, "asyncio.Task[ExecResult]"] = field(default_factory=dict)


class SandboxClient:
    """Works in sandboxes by their ids. Everything raises SandboxError for an id that it does not know.

    Commands have the network of their sandbox and the variables of its agent. A command whose time runs out is ended
    together with everything else that runs in the sandbox beside its verifier.
    """

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._gone: dict[str, None] = {}

    def __reduce__(self) -> tuple[type[Self], tuple[()]]:
        """In another process it knows no sandbox yet."""
        return type(self), ()

    def add(self, sandbox: Sandbox, network: Network = NO_NETWORK, env: Mapping[str, str] | None = None) -> str:
        """Get to know a sandbox; returns its id."""
        sandbox_id = f"sandbox-{secrets.token_hex(6)}"
        self._known[sandbox_id] = _Known(sandbox, network, dict(env or {}))
        return sandbox_id

    def set_variables(self, sandbox_id: str, env: Mapping[str, str]) -> None:
        """The variables that every command finds from now on."""
        self._of(sandbox_id).env = dict(env)

    async def remove(self, sandbox_id: str) -> None:
        """Forget a sandbox that is about to be destroyed, and end its background jobs. Unknown ids are fine."""
        known = self._known.pop(sandbox_id, None)
        if known is not None:
            self._gone = dict.fromkeys([*list(self._gone)[-1000:], sandbox_id])
            await finish(_end(list(known.jobs.values())))

    async def execute_command(
        self,
        sandbox_id: str,
        command: str,
        working_dir: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the name that authors of environments know
    ) -> CommandResult:
        """Run a shell command to its end. That it fails is data; only a sandbox that fails raises SandboxError."""
        known = self._of(sandbox_id)
        return _result(await known.sandbox.exec(_command(known, command, working_dir, env, timeout)))

    async def start_background_job(
        self, sandbox_id: str, command: str, working_dir: str | None = None, env: Mapping[str, str] | None = None
    ) -> BackgroundJob:
        """Start a shell command and return. It is ended with its sandbox at the latest."""
        known = self._of(sandbox_id)
        job = BackgroundJob(secrets.token_hex(6), sandbox_id, command)
        # A task of its own, because hooks come and go; `remove` waits for it.
        known.jobs[job.job_id] = asyncio.create_task(
            known.sandbox.exec(_command(known, command, working_dir, env, None))
        )
        return job

    async def get_background_job(self, sandbox_id: str, job: BackgroundJob) -> BackgroundJobStatus:
        """How far a job has come, at once."""
        task = self._job(sandbox_id, job)
        return _status(job, task.result()) if task.done() else BackgroundJobStatus(job.job_id, completed=False)

    async def wait_for_background_job(self, sandbox_id: str, job: BackgroundJob) -> BackgroundJobStatus:
        """How a job has ended, when it has."""
        return _status(job, await asyncio.shield(self._job(sandbox_id, job)))

    async def run_background_job(
        self,
        sandbox_id: str,
        command: str,
        timeout: float | None = None,  # noqa: ASYNC109 - as above
        working_dir: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> BackgroundJobStatus:
        """Start a job and wait for it, at most so long; one that takes longer runs on and is not completed."""
        job = await self.start_background_job(sandbox_id, command, working_dir, env)
        await asyncio.wait([self._job(sandbox_id, job)], timeout=timeout)
        return await self.get_background_job(sandbox_id, job)

    async def upload_file(self, sandbox_id: str, remote_path: str, local_path: str | Path) -> None:
        """Copy a file of this machine into a sandbox; directories on the way are made. Raises OSError."""
        source = Path(local_path)
        content = await asyncio.to_thread(source.read_bytes)
        mode = 0o755 if source.stat().st_mode & 0o100 else 0o644  # noqa: ASYNC240 - one file
        await put_file(self._of(sandbox_id).sandbox, _absolute(remote_path), content, mode=mode)

    async def upload_content(self, sandbox_id: str, content: str | bytes, remote_path: str) -> None:
        """Write a file in a sandbox; directories on the way are made."""
        data = content.encode() if isinstance(content, str) else content
        await put_file(self._of(sandbox_id).sandbox, _absolute(remote_path), data)

    async def read_file(self, sandbox_id: str, remote_path: str) -> str:
        """The text of a file in a sandbox. Raises FileNotFoundError, and SandboxError for what is no file."""
        return (await self._read(sandbox_id, remote_path)).decode(errors="replace")

    async def download_file(self, sandbox_id: str, remote_path: str, local_path: str | Path) -> None:
        """Copy a file of a sandbox to this machine; raises as `read_file` does, and OSError."""
        content = await self._read(sandbox_id, remote_path)
        await asyncio.to_thread(Path(local_path).write_bytes, content)

    async def _read(self, sandbox_id: str, path: str) -> bytes:
        return await get_file(self._of(sandbox_id).sandbox, _absolute(path), limit=MAX_FILE_BYTES)

    def _of(self, sandbox_id: str) -> _Known:
        known = self._known.get(sandbox_id)
        if known is not None:
            return known
        if sandbox_id in self._gone:
            raise SandboxError(f"the sandbox {sandbox_id} is gone: its rollout has ended")
        raise SandboxError(f"there is no sandbox {sandbox_id!r}; state['sandbox_id'] has the one of a rollout")

    def _job(self, sandbox_id: str, job: BackgroundJob) -> "asyncio.Task[ExecResult]":
        task = self._of(sandbox_id).jobs.get(job.job_id)
        if task is None:
            raise SandboxError(f"the sandbox {sandbox_id} has no background job {job.job_id!r}")
        return task


async def _end(jobs: list["asyncio.Task[ExecResult]"]) -> None:
    for job in jobs:
        job.cancel()
    for job in jobs:
        with suppress(asyncio.CancelledError, Exception):  # nobody waits for its result any more
            await job


def _absolute(path: str) -> str:
    if not path.startswith("/"):
        raise SandboxError(f"{path!r}: files in a sandbox are named by absolute paths, such as /app/agent.py")
    return path


def _command(
    known: _Known, command: str, working_dir: str | None, env: Mapping[str, str] | None, timeout: float | None
) -> ExecSpec:
    return ExecSpec(
        ("/bin/sh", "-c", command),
        env={**known.env, **(env or {})},
        cwd=working_dir,
        timeout_sec=timeout,
        network=known.network,
    )


def _result(ended: ExecResult) -> CommandResult:
    return CommandResult(ended.stdout.decode(errors="replace"), ended.stderr.decode(errors="replace"), ended.exit_code)


def _status(job: BackgroundJob, ended: ExecResult) -> BackgroundJobStatus:
    result = _result(ended)
    return BackgroundJobStatus(job.job_id, True, result.exit_code, result.stdout, result.stderr)
