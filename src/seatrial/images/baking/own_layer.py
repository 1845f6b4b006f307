"""A layer of the user's own, a folder or an archive, that brings an agent: how it is read, and what it was."""

import hashlib
import os
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from seatrial.errors import AgentSetupError, ImageError, JobError
from seatrial.images.baking.tidy import LayerEntry, entries_of_archive, entries_of_folder, write_layer
from seatrial.images.compression import BROKEN, open_compressed
from seatrial.images.layers import LayerBounds
from seatrial.model.job import AgentLayer

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
