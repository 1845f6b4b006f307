"""The archive of a layer, the same bytes for the same files: sorted, owned by root, of one time, readable for all.

What it is made of comes from strangers, or from a folder of the user's; `checked_name` says what no layer may hold.
"""

import hashlib
import io
import os
import stat
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, Literal, cast

from seatrial.errors import AgentSetupError, ImageError, JobError, SandboxError
from seatrial.images.layers import BROKEN, LayerBounds, open_compressed
from seatrial.model.job import AgentLayer
from seatrial.sandbox.archives import safe_parts, write_tar
from seatrial.sandbox.layers import WHITEOUT

# Sandboxes lay these out themselves, or they are the verifier's.
_OURS = frozenset({"dev", "proc", "sys", "run", "task", "tests", "solution", "logs", "tmp"})
# Links in most images: a folder in their place would hide all programs of the image.
_LINKS = frozenset({"bin", "sbin", "lib", "lib32", "lib64", "libx32", "var/run", "var/lock"})
_TIME = 0


@dataclass(frozen=True)
class LayerEntry:
    """Something in a layer, by its path from `/`. A file has a `size`, and `open` gives its content."""

    path: str
    kind: Literal["folder", "file", "link"]
    executable: bool = False
    target: str = ""
    size: int = 0
    open: Callable[[], AbstractContextManager[IO[bytes]]] = lambda: nullcontext(io.BytesIO())


def write_layer(entries: Iterable[LayerEntry], archive: IO[bytes]) -> None:
    """Write entries, with the folders that lead to them. Raises ImageError for two of one path, and OSError."""
    found: dict[str, LayerEntry] = {}
    for entry in entries:
        if entry.path in found and entry.kind != "folder":
            raise ImageError(f"/{entry.path} is in it twice")
        found[entry.path] = entry
    for path in [*found]:
        for parent in _parents(path):
            if found.setdefault(parent, LayerEntry(parent, "folder")).kind != "folder":
                raise ImageError(f"/{path} is below /{parent}, which is no folder")
    with write_tar(archive, "w|") as tar:
        for path in sorted(found):
            _add(tar, found[path])


def rewound(file: IO[bytes]) -> BinaryIO:
    """A real file at its beginning, for somebody who takes its descriptor and knows nothing of what is buffered."""
    file.flush()
    os.lseek(file.fileno(), 0, os.SEEK_SET)
    return cast(BinaryIO, file)


def _parents(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _add(tar: tarfile.TarFile, entry: LayerEntry) -> None:
    member = tarfile.TarInfo(entry.path)
    member.mtime, member.uname, member.gname = _TIME, "root", "root"
    member.mode = 0o755 if entry.kind == "folder" or entry.executable else 0o644
    if entry.kind == "file":
        member.size = entry.size
        with entry.open() as content:
            tar.addfile(member, content)
        tar.members.clear()  # type: ignore[attr-defined] # it would remember them all
        return
    member.type = tarfile.DIRTYPE if entry.kind == "folder" else tarfile.SYMTYPE
    if entry.kind == "link":
        member.linkname, member.mode = entry.target, 0o777
    tar.addfile(member)


def entries_of_folder(folder: Path) -> Iterator[LayerEntry]:
    """What is in a folder, which stands for `/`. Raises ImageError for what no layer may hold."""
    for place, folders, files in os.walk(folder, onerror=_refuse):
        for name in (*folders, *files):
            file = Path(place, name)
            path = checked_name(str(file.relative_to(folder)))
            status = file.lstat()
            if stat.S_ISLNK(status.st_mode):
                yield LayerEntry(path, "link", target=str(file.readlink()))
            elif stat.S_ISDIR(status.st_mode):
                yield LayerEntry(path, "folder")
            elif stat.S_ISREG(status.st_mode):
                executable = bool(status.st_mode & 0o100)
                yield LayerEntry(path, "file", executable, size=status.st_size, open=lambda file=file: file.open("rb"))  # type: ignore[misc]
            else:
                raise ImageError(f"/{path} is neither a file nor a folder nor a link; take it out")


def _refuse(error: OSError) -> None:
    raise error


def entries_of_archive(tar: tarfile.TarFile, below: str = "") -> Iterator[LayerEntry]:
    """What is in an archive that can be read in any order, put below a path. Hard links become copies.

    Raises ImageError for what no layer may hold.
    """
    files = _files_in(tar)
    for member in tar:
        path = "/".join(filter(None, (below, *_safe(member.name))))
        if not path:
            continue
        path = path if below else checked_name(path)
        if member.isdir():
            yield LayerEntry(path, "folder")
        elif member.issym():
            yield LayerEntry(path, "link", target=member.linkname)
        elif member.isreg() or member.islnk():
            yield _file_of(tar, member, path, files)
        else:
            raise ImageError(f"/{path} is neither a file nor a folder nor a link; take it out")


def _files_in(tar: tarfile.TarFile) -> dict[str, tarfile.TarInfo]:
    """The files of an archive by their names; the tarfile module would look through all of them for each hard link."""
    files = {}
    for member in tar:
        if member.size < 0:  # it would lead the module backwards, for ever
            raise ImageError(f"the size of {member.name!r} in it is negative")
        if member.isreg():
            files[member.name] = member
    return files


def _file_of(tar: tarfile.TarFile, member: tarfile.TarInfo, path: str, files: dict[str, tarfile.TarInfo]) -> LayerEntry:
    if member.islnk() and member.linkname not in files:
        raise ImageError(f"/{path} is a hard link to {member.linkname!r}, which is not in it or no file")
    content = files[member.linkname] if member.islnk() else member

    def open_content() -> AbstractContextManager[IO[bytes]]:
        opened = tar.extractfile(content)
        return opened or nullcontext(io.BytesIO())

    return LayerEntry(path, "file", bool(content.mode & 0o100), size=content.size, open=open_content)


def _safe(name: str) -> tuple[str, ...]:
    try:
        return safe_parts(name, absolute="below")
    except SandboxError as error:
        raise ImageError(f"{name!r}: {error}") from error


def checked_name(path: str) -> str:
    """A path from `/` that a layer may have. Raises ImageError for one that it may not."""
    parts = _safe(path)
    if any(part.startswith(WHITEOUT) for part in parts):
        raise ImageError(f"/{path}: in layers, a name that starts with {WHITEOUT} removes something; rename it")
    if parts and parts[0] in _OURS:
        raise ImageError(f"/{path}: /{parts[0]} belongs to the sandbox; put the agent elsewhere, as in /opt")
    for place in _LINKS:
        if "/".join(parts[: place.count("/") + 1]) == place:
            raise ImageError(
                f"/{path}: /{place} is a link in many images, which this would hide; put it below /usr/local or /opt"
            )
    return "/".join(parts)


# A layer of the user's own, a folder or an archive: how it is read, and its digest.

_CHUNK = 2**20
_OPT = "/opt/"
_UNREADABLE = (tarfile.TarError, ValueError, ArithmeticError, *BROKEN)


class _Digesting:
    """Takes what is written, for a file if there is one, and knows its digest."""

    def __init__(self, file: IO[bytes] | None = None) -> None:
        self._file = file
        self.hash = hashlib.sha256()

    def write(self, chunk: bytes, /) -> int:
        self.hash.update(chunk)
        return self._file.write(chunk) if self._file else len(chunk)


def lock_layer(layer: AgentLayer) -> AgentLayer:
    """The layer with a whole path and with what it is now, unless that was settled before. Raises JobError."""
    source = os.path.abspath(layer.source)  # noqa: PTH100 - links stay as they were named
    return layer.model_copy(update={"source": source, "digest": layer.digest or _digest(Path(source))})


def has_changed(layer: AgentLayer) -> bool:
    """Whether a layer is not what it was when it was locked, or is not there any more."""
    try:
        return _digest(Path(layer.source)) != layer.digest
    except JobError:
        return True


def beside_opt(layer: AgentLayer) -> list[str]:
    """The files and links of a layer that programs of the image may load, since they do not lie in /opt."""
    try:
        with _entries(Path(layer.source)) as entries:
            brought = [f"/{each.path}" for each in entries if each.kind != "folder"]
    except (OSError, ImageError, *_UNREADABLE):  # which is said where it is laid out
        return []
    return sorted(path for path in brought if not path.startswith(_OPT))


def pack_layer(layer: AgentLayer, archive: IO[bytes]) -> None:
    """Write the archive of a locked layer. Raises AgentSetupError for one that has changed since."""
    writer = _Digesting(archive)
    try:
        _write(Path(layer.source), cast(IO[bytes], writer))
    except JobError as error:
        raise AgentSetupError(str(error)) from error
    archive.flush()
    if writer.hash.hexdigest() != layer.digest:
        raise AgentSetupError(f"{layer.source}: the agent's layer has changed since the job began; run a new job")


def _digest(source: Path) -> str:
    digest = _Digesting()
    _write(source, cast(IO[bytes], digest))
    return digest.hash.hexdigest()


def _write(source: Path, archive: IO[bytes]) -> None:
    try:
        with _entries(source) as entries:
            write_layer(entries, archive)
    except ImageError as error:
        raise JobError(f"--agent-layer {source}: {error}") from error
    except FileNotFoundError as error:
        raise JobError(
            f"--agent-layer {source}: there is no {error.filename}; name a folder or a tar archive"
        ) from error
    except _UNREADABLE as error:
        raise JobError(f"--agent-layer {source}: it is not readable as a tar archive: {error}") from error
    except OSError as error:
        raise JobError(f"--agent-layer {source}: it cannot be read: {error.strerror or error}") from error


@contextmanager
def _entries(source: Path) -> Iterator[Iterator[LayerEntry]]:
    if source.is_dir():
        yield entries_of_folder(source)
        return
    with source.open("rb") as file, tempfile.TemporaryFile() as plain:
        stream = open_compressed(file)
        if stream is not file:
            _copy(stream, plain)
        with tarfile.open(fileobj=file if stream is file else plain, mode="r:") as tar:
            yield entries_of_archive(tar)


def _copy(stream: IO[bytes], plain: IO[bytes]) -> None:
    left = LayerBounds().max_bytes
    while chunk := stream.read(_CHUNK):
        plain.write(chunk)
        left -= len(chunk)
        if left < 0:
            raise ImageError(f"it unpacks to more than {LayerBounds().max_bytes} bytes, which no agent has")
    plain.seek(0)
