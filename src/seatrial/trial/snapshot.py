"""The end state of a sandbox: kept as a compressed archive beside the record, and laid out again in a fresh sandbox.

The archive is a layer: all that differs from the image, with marks of what is gone as overlayfs has them. Large files
are beside it, each under the digest of its content, so that those of several trials can be one on the disk. When one is
kept: always, never, or where that is cheap.
"""

import asyncio
import hashlib
import os
import re
import shutil
import tarfile
import tempfile
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, Protocol, cast

import zstandard

from seatrial.concurrency import finish
from seatrial.descriptors import raise_if_short
from seatrial.errors import ContentError, HostUnsupportedError, SandboxError, TooLargeError
from seatrial.model.job import AgentOptions, TrialOptions
from seatrial.model.record import KeptState
from seatrial.sandbox.api import Sandbox
from seatrial.sandbox.archives import read_tar, write_tar
from seatrial.sandbox.host.disks import spare_bytes
from seatrial.sandbox.layers import is_gone_mark
from seatrial.sandbox.transfer import new_archive
from seatrial.tasks.variables import allowed_variables, templates_in

# Whether an end state is kept, and what the record says of it.

ARCHIVE, FOLDER = "snapshot.tar.zst", "snapshot.files"


class SnapshotBounds(NamedTuple):
    """How much is kept at most: bytes of files in the sandbox, and bytes on the disk; nothing with a secret in it."""

    raw: int
    packed: int
    secrets: Collection[str] = ()


ANYTHING = SnapshotBounds(raw=2**36, packed=2**36)
# Packing and compressing as much takes about a tenth of a second.
_CHEAP_RAW, _CHEAP_PACKED = 32 * 2**20, 8 * 2**20
_NOT_WANTED = KeptState(kept=False, reason="the run said --keep record")


class SnapshotPolicy(NamedTuple):
    """What a run wants kept. Where that is decided by the cost, nothing with one of the secrets in it is."""

    keep: Literal["auto", "record", "snapshot"]
    secrets: tuple[str, ...] = ()

    @property
    def bounds(self) -> SnapshotBounds:
        if self.keep == "snapshot":
            return ANYTHING
        return SnapshotBounds(_CHEAP_RAW, _CHEAP_PACKED, self.secrets)


def snapshot_policy(options: TrialOptions, agent: AgentOptions, host: Mapping[str, str] = os.environ) -> SnapshotPolicy:
    """What a run wants kept. One that asks its verifiers several times needs it for a while, if that is cheap.

    Secrets are what task and agent were given of this machine's variables, whose values are stored nowhere.
    """
    needed = options.keep == "record" and options.verify_repeats > 1
    given = {name: host[name] for name, _ in templates_in(agent.env) if name in host}
    secrets = (allowed_variables(options.allow_env, host) | given).values()
    return SnapshotPolicy("auto" if needed else options.keep, tuple(secrets))


async def keep_state(sandbox: Sandbox, folder: Path, policy: SnapshotPolicy, processes: tuple[str, ...]) -> KeptState:
    """Keep the end state of a sandbox, whose processes are ended first; or say why that cannot be."""
    if policy.keep == "record":
        return _NOT_WANTED
    try:
        if processes:
            await sandbox.kill_all()
        size = await keep_snapshot(sandbox, folder, policy.bounds)
    except (SandboxError, HostUnsupportedError, OSError) as error:
        raise_if_short(error)
        hint = "; --keep snapshot keeps it" if policy.keep == "auto" and isinstance(error, ContentError) else ""
        return KeptState(kept=False, reason=f"{error}{hint}", processes=processes)
    return KeptState(kept=True, size=size, processes=processes)


def forget_state(folder: Path) -> KeptState:
    """Remove the end state that a folder has, which nobody wanted for longer."""
    remove_snapshot(folder)
    return _NOT_WANTED


# Keeping one.

_LITTLE = 2**16
_LEVEL = 3


async def keep_snapshot(sandbox: Sandbox, folder: Path, bounds: SnapshotBounds = ANYTHING) -> int:
    """Store all that differs from the image, while nothing runs in the sandbox; returns how many bytes it takes.

    In an archive, because there nothing is alive: a layer's directory may hold programs with a stranger's setuid bit.
    Raises TooLargeError for more than the bounds, ContentError for a secret; then and otherwise, nothing is left.
    """
    with suppress(TooLargeError):
        return await _keep_little(sandbox, folder, bounds)
    folder.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240 - one directory
    try:
        return await _keep_much(sandbox, folder, bounds)
    except BaseException:
        remove_snapshot(folder)
        raise


def remove_snapshot(folder: Path) -> None:
    """Remove the end state that is kept in a folder, if one is."""
    (folder / ARCHIVE).unlink(missing_ok=True)
    shutil.rmtree(folder / FOLDER, ignore_errors=True)


async def _keep_little(sandbox: Sandbox, folder: Path, bounds: SnapshotBounds) -> int:
    """What takes no time is done at once: to have a thread do it would take longer. Raises TooLargeError."""
    with new_archive() as archive:
        await sandbox.pack_layer(archive, min(bounds.raw, _LITTLE))
        archive.seek(0)
        plain = archive.read()
    if holds_secret(plain, bounds.secrets):
        raise ContentError(SECRET_FOUND)
    packed = zstandard.ZstdCompressor(level=_LEVEL).compress(plain)
    folder.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240 - one directory, one small file
    try:
        (folder / ARCHIVE).write_bytes(packed)
    except BaseException:
        remove_snapshot(folder)
        raise
    return len(packed)


async def _keep_much(sandbox: Sandbox, folder: Path, bounds: SnapshotBounds) -> int:
    """Have the sandbox write to a pipe, from which a thread compresses: no second copy is ever made."""
    reader, writer = os.pipe()
    stream = SearchedStream(reader, bounds.secrets)
    budget = SnapshotBudget(min(bounds.packed, spare_bytes(folder)))
    try:
        # At once, and not when this task waits for the first time: somebody must read before anybody writes.
        compressing = asyncio.get_running_loop().run_in_executor(None, _compress, stream, folder, budget)
    except RuntimeError as error:  # no thread can be started now, but one that is free later will still do it
        stream.stop.set()
        os.close(writer)
        raise SandboxError(f"it cannot be packed: {error}") from error
    trouble: Exception | None = None
    try:
        with os.fdopen(writer, "wb", buffering=0) as archive:
            await sandbox.pack_layer(archive, bounds.raw)
    except (SandboxError, OSError) as error:
        trouble = error
    except BaseException:
        stream.stop.set()
        raise
    finally:
        failed = await finish(_ended(compressing))
    # Where the thread gave up before the end, there was nobody left to write to: that is the reason, not what came of
    # it. Otherwise the sandbox may have given up, and the thread only has half an archive.
    if reason := (trouble or failed) if stream.ended else (failed or trouble):
        raise reason
    return budget.taken


async def _ended(compressing: "asyncio.Future[Exception | None]") -> Exception | None:
    return await compressing


# Laying one out.


async def lay_out_snapshot(sandbox: Sandbox, archive: Path) -> None:
    """Make a fresh sandbox of the same image what it was when the archive was made.

    Files, links and directories come back with their owners and modes, and what was removed is removed; pipes and
    sockets, which nobody holds open any more, do not. Raises ContentError for what is no such archive, and
    SandboxError where the sandbox cannot be made so.
    """
    with tempfile.TemporaryFile() as plain:
        await asyncio.to_thread(_unpack, archive, plain)
        plain.seek(0)
        await sandbox.unpack_layer("/", plain)


def _unpack(archive: Path, plain: BinaryIO) -> None:
    """Write the layer to `plain`, large files in it; a stranger's archive must not fill the disk."""
    spare = spare_bytes(Path(tempfile.gettempdir()))
    try:
        with (
            zstandard.open(archive, "rb") as packed,
            read_tar(packed, "r|") as source,
            write_tar(plain) as target,
        ):
            for member in source:
                if member.isreg() or member.isdir() or member.issym() or member.islnk() or is_gone_mark(member):
                    put_together(member, source, target, archive.parent / FOLDER, spare - target.offset)
    except (OSError, EOFError, ValueError, tarfile.TarError, zstandard.ZstdError) as error:
        raise ContentError(f"{archive}: not the end state of a sandbox: {error}") from error


# Large files: out of the archive into files of their own, and back. Each is named by the digest of its content, which
# does not depend on where it was, whose it was or when it was written.

LARGE = 2**17
_CONTENT, _SIZE = "SEATRIAL.content", "SEATRIAL.size"
_DIGEST = re.compile(r"[0-9a-f]{64}")
_CHUNK = 2**18


class Readable(Protocol):
    """Whatever can be read from."""

    def read(self, size: int = -1, /) -> bytes:
        """As many bytes as are asked for; less only at the end."""
        ...


class SnapshotBudget:
    """How many bytes on the disk an end state may take, and has taken."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.taken = 0

    def write(self, file: BinaryIO, data: bytes) -> None:
        """Write some more. Raises TooLargeError where that would be too much."""
        self.taken += len(data)
        if self.taken > self._limit:
            raise TooLargeError(f"packed, it takes more than the limit of {self._limit:,} bytes")
        file.write(data)

    def bounded(self, file: BinaryIO) -> BinaryIO:
        """A file that can only be written to while there is room."""
        return cast("BinaryIO", BoundedFile(self, file))


class BoundedFile:
    """A file to which no more is written than there is room for."""

    def __init__(self, budget: SnapshotBudget, file: BinaryIO) -> None:
        self._budget = budget
        self._file = file

    def write(self, data: bytes) -> int:
        """Write all of it. Raises TooLargeError."""
        self._budget.write(self._file, data)
        return len(data)


def keep_apart(
    stream: Readable, packed: "zstandard.ZstdCompressionWriter", folder: Path, budget: SnapshotBudget
) -> None:
    """Copy an archive, with large files in `folder` instead of in it."""
    with (
        read_tar(stream, "r|") as source,
        write_tar(packed, "w|") as target,
    ):
        for member in source:
            content = source.extractfile(member) if member.isreg() else None
            if content is None or member.size < LARGE:
                target.addfile(member, content)
                continue
            digest = _store(content, folder, budget)
            member.pax_headers = {**member.pax_headers, _CONTENT: digest, _SIZE: str(member.size)}
            member.pax_headers.pop("size", None)
            member.size = 0
            target.addfile(member)


def _store(content: Readable, folder: Path, budget: SnapshotBudget) -> str:
    folder.mkdir(exist_ok=True)
    digest, unnamed = hashlib.sha256(), folder / "new"
    with unnamed.open("wb") as file, zstandard.ZstdCompressor(_LEVEL).stream_writer(budget.bounded(file)) as packed:
        while data := content.read(_CHUNK):
            digest.update(data)
            packed.write(data)
    unnamed.rename(folder / f"{digest.hexdigest()}.zst")
    return digest.hexdigest()


def put_together(
    member: tarfile.TarInfo, source: tarfile.TarFile, target: tarfile.TarFile, folder: Path, left: int
) -> None:
    """Copy a member of an archive, with the content that is in `folder` if it is there.

    Raises ContentError for more than is `left`, and for content that is not there or another.
    """
    apart = content_of(member)
    if apart is None:
        _check_room(member.size, left)
        target.addfile(member, source.extractfile(member) if member.isreg() else None)
        return
    digest, member.size = apart
    _check_room(member.size, left)
    member.pax_headers = {key: value for key, value in member.pax_headers.items() if key not in (_CONTENT, _SIZE)}
    with zstandard.open(folder / f"{digest}.zst", "rb") as file:
        checked = _Checked(file)
        target.addfile(member, checked)
        if checked.digest.hexdigest() != digest:
            raise ContentError(f"{folder / digest}.zst: its content is another than its name says")


def content_of(member: tarfile.TarInfo) -> tuple[str, int] | None:
    """The digest and the size of a content that lies beside the archive; None for a member that has its own.

    Raises ContentError for what cannot be one.
    """
    digest, size = member.pax_headers.get(_CONTENT), member.pax_headers.get(_SIZE)
    if digest is None or size is None:
        return None
    if not _DIGEST.fullmatch(digest) or not size.isdecimal():
        raise ContentError(f"{member.name}: no such content can be: {digest!r}")
    return digest, int(size)


def _check_room(size: int, left: int) -> None:
    if size > left:
        raise ContentError("there is no room for what is in it on this machine")


class _Checked:
    """Reads a file and notes the digest of what was read."""

    def __init__(self, file: Readable) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def read(self, size: int = -1, /) -> bytes:
        data = b"".join(self._whole(size))
        self.digest.update(data)
        return data

    def _whole(self, size: int) -> Iterator[bytes]:
        while size > 0 and (data := self._file.read(size)):
            yield data
            size -= len(data)


# A pipe that is read to its end while secrets are looked for in it, or until nobody wants to know any more.

SECRET_FOUND = "it holds the value of a variable that was given by --allow-env or --agent-env"  # noqa: S105 - a sentence
LEAST_SECRET = 8
"""What is shorter is in any file."""


def holds_secret(data: bytes, secrets: Collection[str]) -> bool:
    """Whether some bytes hold a secret. Those that are so short that anything holds them do not count."""
    return any(_bytes_of(secret) in data for secret in secrets if len(secret) >= LEAST_SECRET)


def _bytes_of(secret: str) -> bytes:
    """What a program writes that was given a variable, whose value need not be UTF-8."""
    return secret.encode("utf-8", "surrogateescape")


class SearchedStream:
    """Raises ContentError when one of some secrets has come by, and OSError once it is told to `stop`."""

    def __init__(self, descriptor: int, secrets: Collection[str]) -> None:
        self.stop = threading.Event()
        self._descriptor = descriptor
        self._secrets = secrets
        self._overlap = max((len(_bytes_of(secret)) for secret in secrets), default=0)
        self._seen = b""
        self.ended = False
        """Whether all of it was read."""

    @contextmanager
    def unless_stopped(self) -> Iterator[None]:
        """A block that reads it, after which the pipe is let go of: whoever still writes to it is told so."""
        try:
            self._go_on()
            yield
        finally:
            os.close(self._descriptor)

    def read(self, size: int = -1, /) -> bytes:
        """As many bytes as are asked for; less only at the end."""
        parts, left = [], size
        while left > 0 and (data := os.read(self._descriptor, left)):
            self._search(data)
            parts.append(data)
            left -= len(data)
        self.ended = left > 0
        return b"".join(parts)

    def _search(self, data: bytes) -> None:
        self._go_on()
        if self._overlap:
            together = self._seen + data
            if holds_secret(together, self._secrets):
                raise ContentError(SECRET_FOUND)
            self._seen = together[-self._overlap :]

    def _go_on(self) -> None:
        if self.stop.is_set():
            raise OSError("nobody wants it any more")


def _compress(stream: SearchedStream, folder: Path, budget: SnapshotBudget) -> Exception | None:
    """Compress what comes into an archive and large files beside it; returns what went wrong."""
    try:
        packer = zstandard.ZstdCompressor(level=_LEVEL)
        with (
            stream.unless_stopped(),
            (folder / ARCHIVE).open("xb") as file,
            packer.stream_writer(budget.bounded(file), closefd=False) as packed,
        ):
            keep_apart(stream, packed, folder / FOLDER, budget)
            while stream.read(_LITTLE):  # what fills the last record up
                pass
    except (OSError, ContentError) as error:
        return error
    except (tarfile.TarError, zstandard.ZstdError) as error:
        return ContentError(f"it cannot be packed: {error}")
    return None
