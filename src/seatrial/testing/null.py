"""A sandbox that does nothing, as fast as that can be done: what is left in a benchmark is Seatrial's own cost."""

import io
import socket
import tarfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from seatrial.errors import HostUnsupportedError, SandboxError
from seatrial.model.record import FileChanges, LimitSpec, ResourceUse
from seatrial.sandbox.api import (
    MAX_ARCHIVE_BYTES,
    Capabilities,
    Curate,
    ExecResult,
    ExecSpec,
    Phase,
    SandboxSpec,
    Stamps,
)
from seatrial.testing.fake import ALL_POWERFUL

_SUCCESS = ExecResult(0, 0.0)
_NO_CHANGES = FileChanges()
_NO_USE = ResourceUse()


class NullBackend:
    """Every command succeeds at once and prints nothing; `files` are there to be got, whatever is put is gone.

    It keeps no record of anything, so that a hundred thousand trials need no more memory than one.
    """

    def __init__(self, files: Mapping[str, bytes] | None = None) -> None:
        self._archives = {path: _pack(path, content) for path, content in (files or {}).items()}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    async def probe(self) -> Capabilities:
        """It claims to do everything a fake can."""
        return ALL_POWERFUL

    async def create(self, spec: SandboxSpec) -> "NullSandbox":
        """A sandbox; nothing is refused."""
        return NullSandbox(spec.limits, self._archives)


def _pack(path: str, content: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        info = tarfile.TarInfo(path.rpartition("/")[2])
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


class NullSandbox:
    """Nothing, with the methods of a sandbox; made by NullBackend."""

    __slots__ = ("_archives", "_destroyed", "_limits")

    def __init__(self, limits: LimitSpec, archives: Mapping[str, bytes]) -> None:
        self._limits = limits
        self._archives = archives
        self._destroyed = False

    @property
    def limits_enforced(self) -> LimitSpec:
        """Those that were asked for."""
        return self._limits

    async def exec(self, spec: ExecSpec) -> ExecResult:
        """Success."""
        self._check()
        return _SUCCESS

    async def put(self, directory: str, archive: BinaryIO, *, phase: Phase = "agent") -> None:
        """Nothing."""
        self._check()

    async def get(
        self, path: str, archive: BinaryIO, *, phase: Phase = "agent", limit: int = MAX_ARCHIVE_BYTES
    ) -> None:
        """One of the files the backend was given. Raises FileNotFoundError for any other."""
        self._check()
        if path not in self._archives:
            raise FileNotFoundError(path)
        archive.write(self._archives[path])

    async def listen(self, port: int) -> socket.socket:
        """A real socket, on any free port of this machine: `port` is free in every sandbox of its own."""
        self._check()
        return socket.create_server(("127.0.0.1", 0), backlog=4096)

    async def kill_all(self, phase: Phase = "agent") -> None:
        """Nothing."""
        self._check()

    async def processes(self) -> tuple[str, ...]:
        """None."""
        self._check()
        return ()

    async def renew_verifier(self, curate: Curate | None = None) -> None:
        """Nothing."""
        self._check()

    async def changes(self) -> FileChanges:
        """None."""
        self._check()
        return _NO_CHANGES

    async def snapshot(self, layer: Path) -> None:
        """An empty layer."""
        self._check()
        layer.mkdir(parents=True)  # noqa: ASYNC240 - one directory

    async def pack_layer(self, archive: BinaryIO, limit: int) -> None:
        """Refused: there are no files."""
        self._check()
        raise HostUnsupportedError("a sandbox that does nothing has no end state")

    async def unpack_layer(self, directory: str, archive: BinaryIO) -> None:
        """Nothing."""
        self._check()

    async def stamps(self) -> Stamps:
        """None."""
        self._check()
        return {}

    async def usage(self) -> ResourceUse:
        """None that is known."""
        self._check()
        return _NO_USE

    async def destroy(self) -> None:
        """Refuse everything from now on."""
        self._destroyed = True

    def _check(self) -> None:
        if self._destroyed:
            raise SandboxError("the sandbox is destroyed")
