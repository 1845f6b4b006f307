"""SandboxClient: the sandboxes of rollouts by their ids, for hooks that put files into them and run commands there.

Its methods, and the requests and results beside it, are those of clients of hosted sandboxes. Who makes the sandboxes
and when they end is in `sandboxes`.
"""

import asyncio
import functools
import secrets
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, Self, TypeVar, cast

from seatrial.concurrency import finish
from seatrial.errors import SandboxError
from seatrial.sandbox.api import NO_NETWORK, ExecResult, ExecSpec, Network, Phase, Sandbox
from seatrial.sandbox.transfer import get_file, put_file

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

MAX_FILE_BYTES = 256 * 2**20
_GONE = (
    "the sandbox {} is gone: its rollout has ended. With keep_sandbox_for_scoring=True it stays until the rubric has "
    "scored"
)

Release = Callable[[], Awaitable[None]]


@dataclass(slots=True)
class SandboxRequest:
    """A sandbox that is wanted. What is None is as the task says, or bounded by the machine.

    Of the fields that hosted services know, `team_id`, `advanced_configs`, `labels` and `vm` have no effect.
    """

    name: str = ""
    docker_image: str | None = None
    start_command: str | None = None
    cpu_cores: float | None = None
    memory_gb: float | None = None
    disk_size_gb: float | None = None
    gpu_count: int = 0
    gpu_type: str | None = None
    vm: bool = False
    timeout_minutes: float | None = None
    environment_vars: Mapping[str, str] | None = None
    team_id: str | None = None
    advanced_configs: Any = None
    labels: Sequence[str] = field(default_factory=tuple)


@dataclass(frozen=True, slots=True)
class SandboxInfo:
    """A sandbox that is there."""

    id: str
    name: str = ""
    docker_image: str = ""
    status: str = "RUNNING"


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command ended. `exit_code` is None when its time ran out, negative for a signal."""

    stdout: str
    stderr: str
    exit_code: int | None

    @property
    def timed_out(self) -> bool:
        return self.exit_code is None


class FileText(str):
    """The text of a file. Clients of hosted sandboxes give an object with its `content`: so does this one."""

    __slots__ = ()

    @property
    def content(self) -> str:
        return str(self)

    @property
    def size(self) -> int:
        return len(self.encode())


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
    """A sandbox as hooks have it: the agent's view until that has ended, then the verifier's."""

    view: SandboxView
    release: Release | None = None
    """Destroys it."""
    jobs: dict[str, "asyncio.Task[ExecResult]"] = field(default_factory=dict)

    @contextmanager
    def seen_as(self, view: SandboxView) -> Iterator[None]:
        before, self.view = self.view, view
        try:
            yield
        finally:
            self.view = before

    async def run(self, spec: ExecSpec) -> ExecResult:
        await self._prepare()
        return await self.view.sandbox.exec(spec)

    def command(
        self, command: str, working_dir: str | None, env: Mapping[str, str] | None, timeout: float | None
    ) -> ExecSpec:
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
        await self._prepare()
        await put_file(self.view.sandbox, path, content, mode=mode, phase=self.view.phase)

    async def get(self, path: str, limit: int) -> bytes:
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
            with suppress(asyncio.CancelledError, Exception):  # its result is not needed any more
                await task


def as_result(ended: ExecResult) -> CommandResult:
    return CommandResult(ended.stdout.decode(errors="replace"), ended.stderr.decode(errors="replace"), ended.exit_code)


class LoopResource(Generic[T]):
    """Keeps a context manager open from `open` to `close`. A loop that ends first closes it too."""

    def __init__(self, opening: AbstractAsyncContextManager[T]) -> None:
        self._opening = opening
        self._closing = asyncio.Event()
        self._ready: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> T:
        """What the context manager gives. Raises what it raises."""
        # A task of its own, which the end of the event loop cancels: then it closes what it holds.
        self._task = asyncio.create_task(self._hold())
        try:
            return await asyncio.shield(self._ready)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close it. Raises what the context manager raises then."""
        self._closing.set()
        if self._task is not None:
            await finish(_end(self._task, self._ready))

    async def _hold(self) -> None:
        try:
            async with self._opening as opened:
                self._ready.set_result(opened)
                await self._closing.wait()
        except Exception as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)


async def _end(task: "asyncio.Task[None]", ready: "asyncio.Future[T]") -> None:
    if not ready.done():
        task.cancel()
    await asyncio.wait({task})
    if not task.cancelled() and task.exception() is not None:
        task.result()


class SandboxClient:
    """Works in sandboxes by their ids. Everything raises SandboxError for an id that it does not know.

    Commands have the network of their sandbox and the variables of its agent. A command whose time runs out is ended
    together with everything else that runs in the sandbox beside its verifier. `opens` makes the sandboxes that
    only hooks ask for. Methods and arguments are those of clients of hosted sandboxes; a `timeout` of a transfer and a
    `poll_interval` have no effect, for nothing is sent anywhere, and nothing is polled.
    """

    def __init__(self) -> None:
        self.opens: Callable[[Any], AbstractAsyncContextManager[SandboxView]] | None = None
        self._known: dict[str, KnownSandbox] = {}
        self._gone: dict[str, None] = {}

    def __reduce__(self) -> tuple[type[Self], tuple[()]]:
        """In another process it knows no sandbox yet."""
        return type(self), ()

    def add(
        self,
        sandbox: Sandbox,
        network: Network = NO_NETWORK,
        env: Mapping[str, str] | None = None,
        release: Release | None = None,
    ) -> str:
        """Get to know a sandbox; returns its id. `release` destroys it."""
        sandbox_id = f"sandbox-{secrets.token_hex(6)}"
        self._known[sandbox_id] = KnownSandbox(SandboxView(sandbox, network=network, env=dict(env or {})), release)
        return sandbox_id

    def set_variables(self, sandbox_id: str, env: Mapping[str, str]) -> None:
        """The variables that every command finds from now on."""
        known = self.known(sandbox_id)
        known.view = replace(known.view, env=dict(env))

    def known(self, sandbox_id: str) -> KnownSandbox:
        known = self._known.get(sandbox_id)
        if known is not None:
            return known
        if sandbox_id in self._gone:
            raise SandboxError(_GONE.format(sandbox_id))
        raise SandboxError(f"there is no sandbox {sandbox_id!r}; state['sandbox_id'] has the one of a rollout")

    async def remove(self, sandbox_id: str) -> None:
        """Forget a sandbox that is about to be destroyed, and end its background jobs. Unknown ids are fine."""
        known = self._known.pop(sandbox_id, None)
        if known is not None:
            self._gone = dict.fromkeys([*list(self._gone)[-1000:], sandbox_id])
            await finish(known.end_jobs())

    async def create(self, request: Any) -> SandboxInfo:
        """Make a sandbox, which is there until `delete`, or else the end of the event loop. Raises TrialError."""
        if self.opens is None:
            raise SandboxError("this client makes no sandboxes; the one of an environment does: self.sandbox_client")
        held = LoopResource(self.opens(request))
        view = await held.open()
        sandbox_id = self.add(view.sandbox, view.network, view.env, held.close)
        return SandboxInfo(sandbox_id, str(getattr(request, "name", "")), str(getattr(request, "docker_image", "")))

    async def wait_for_creation(self, sandbox_id: str, **_: Any) -> None:
        """Nothing to wait for: what `create` returns is ready."""
        self.known(sandbox_id)

    async def get(self, sandbox_id: str) -> SandboxInfo:
        self.known(sandbox_id)
        return SandboxInfo(sandbox_id)

    async def delete(self, sandbox_id: str) -> None:
        """Destroy a sandbox now, with all that its rollout holds. One that is gone is fine."""
        if sandbox_id in self._gone:
            return
        known = self.known(sandbox_id)
        await self.remove(sandbox_id)
        if known.release is not None:
            await known.release()

    async def bulk_delete(self, sandbox_ids: Sequence[str]) -> None:
        for sandbox_id in sandbox_ids:
            await self.delete(sandbox_id)

    async def execute_command(
        self,
        sandbox_id: str,
        command: str,
        working_dir: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the name that authors of environments know
    ) -> CommandResult:
        """Run a shell command to its end. That it fails is data; only a sandbox that fails raises SandboxError."""
        known = self.known(sandbox_id)
        return as_result(await known.run(known.command(command, working_dir, env, timeout)))

    async def start_background_job(
        self, sandbox_id: str, command: str, working_dir: str | None = None, env: Mapping[str, str] | None = None
    ) -> BackgroundJob:
        """Start a shell command and return. It is ended with its sandbox at the latest."""
        known = self.known(sandbox_id)
        job = BackgroundJob(secrets.token_hex(6), sandbox_id, command)
        # A task of its own, because hooks come and go; `remove` waits for it.
        known.jobs[job.job_id] = asyncio.create_task(known.run(known.command(command, working_dir, env, None)))
        return job

    async def stop_background_job(self, sandbox_id: str, job: BackgroundJob) -> None:
        """End a job and what it started in its own session. One that has ended is fine."""
        await finish(self.known(sandbox_id).end_jobs(job.job_id))

    async def get_background_job(self, sandbox_id: str, job: BackgroundJob, **_: Any) -> BackgroundJobStatus:
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
        poll_interval: float | None = None,
    ) -> BackgroundJobStatus:
        """Start a job and wait for it, at most so long; one that takes longer runs on and is not completed."""
        job = await self.start_background_job(sandbox_id, command, working_dir, env)
        await asyncio.wait([self._job(sandbox_id, job)], timeout=timeout)
        return await self.get_background_job(sandbox_id, job)

    async def upload_file(self, sandbox_id: str, remote_path: str, local_path: str | Path, **_: Any) -> None:
        """Copy a file of this machine into a sandbox; directories on the way are made. Raises OSError."""
        source = Path(local_path)
        content = await asyncio.to_thread(source.read_bytes)
        mode = 0o755 if source.stat().st_mode & 0o100 else 0o644  # noqa: ASYNC240 - one file
        await self.known(sandbox_id).put(_absolute(remote_path), content, mode)

    async def upload_content(self, sandbox_id: str, content: str | bytes, remote_path: str) -> None:
        """Write a file in a sandbox; directories on the way are made."""
        data = content.encode() if isinstance(content, str) else content
        await self.known(sandbox_id).put(_absolute(remote_path), data)

    async def upload_bytes(
        self, sandbox_id: str, file_path: str, file_bytes: bytes, filename: str = "", **_: Any
    ) -> None:
        """The same, as clients of hosted sandboxes call it; `filename` has no effect."""
        await self.upload_content(sandbox_id, file_bytes, file_path)

    async def read_file(self, sandbox_id: str, remote_path: str, **_: Any) -> FileText:
        """The text of a file in a sandbox. Raises FileNotFoundError, and SandboxError for what is no file."""
        return FileText((await self._read(sandbox_id, remote_path)).decode(errors="replace"))

    async def download_file(self, sandbox_id: str, remote_path: str, local_path: str | Path, **_: Any) -> None:
        """Copy a file of a sandbox to this machine; raises as `read_file` does, and OSError."""
        content = await self._read(sandbox_id, remote_path)
        await asyncio.to_thread(Path(local_path).write_bytes, content)

    def teardown(self, **_: Any) -> None:
        """Nothing to end: sandboxes are closed by the environment's own teardown."""

    async def _read(self, sandbox_id: str, path: str) -> bytes:
        return await self.known(sandbox_id).get(_absolute(path), MAX_FILE_BYTES)

    def _job(self, sandbox_id: str, job: BackgroundJob) -> "asyncio.Task[ExecResult]":
        task = self.known(sandbox_id).jobs.get(job.job_id)
        if task is None:
            raise SandboxError(f"the sandbox {sandbox_id} has no background job {job.job_id!r}")
        return task


def without_client(hook: F) -> F:
    """A hook that leaves a client among its arguments alone: the first releases of verifiers passed one."""

    @functools.wraps(hook)
    def called(*args: Any, **kwargs: Any) -> Any:
        kwargs.pop("sandbox_client", None)
        return hook(*(each for each in args if not isinstance(each, SandboxClient)), **kwargs)

    return cast("F", called)


def _absolute(path: str) -> str:
    if not path.startswith("/"):
        raise SandboxError(f"{path!r}: files in a sandbox are named by absolute paths, such as /app/agent.py")
    return path


def _status(job: BackgroundJob, ended: ExecResult) -> BackgroundJobStatus:
    result = as_result(ended)
    return BackgroundJobStatus(job.job_id, True, result.exit_code, result.stdout, result.stderr)
