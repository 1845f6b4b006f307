"""Folders on their way between machines: packed into one compressed archive, and unpacked like a stranger's.

Owners and special modes stay behind: what arrives belongs to whoever unpacks it.
"""

import os
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO, cast

import zstandard

from seatrial.errors import SandboxError
from seatrial.sandbox.archives import check_kind, closing, new_file, open_folder, pack, read_tar, safe_parts, write_tar

LITTLE_BYTES = 2**18
"""Up to so much is packed and unpacked in the event loop: threads that do it keep the loop from its turn."""

_FEW_FILES = 50
_LEVEL = 1  # networks of clusters are fast: more would cost more than it saves
_LARGEST_WINDOW = 2**27
_ANY_SIZE = 2**62
_DEEPEST = 300  # what a sandbox may have, and the folders of a trial around it
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_UNREADABLE = (tarfile.TarError, zstandard.ZstdError, ValueError, ArithmeticError, EOFError, FileExistsError)


def pack_folder(folder: Path, archive: IO[bytes]) -> int:
    """Pack all that is in a folder; pipes and sockets are left out. Returns how many bytes there are to unpack.

    Raises OSError and SandboxError.
    """
    with _compressing(archive) as writer:
        counted = _Counted(writer)
        pack(str(folder), cast("BinaryIO", counted), _ANY_SIZE, max_depth=_DEEPEST)
    return counted.total


def holds_little(folder: Path) -> bool:
    """Whether a folder is packed in no time: few files, and small ones."""
    files, size = 0, 0
    for top, _, names in os.walk(folder):
        files += len(names)
        size += sum(os.lstat(f"{top}/{name}").st_size for name in names) if files <= _FEW_FILES else 0
        if files > _FEW_FILES or size > LITTLE_BYTES:
            return False
    return True


class _Counted:
    """Counts what is written."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.total = 0

    def write(self, data: bytes) -> int:
        self.total += len(data)
        return self._file.write(data)

    def tell(self) -> int:
        return self.total


def pack_files(root: Path, names: Iterable[str], archive: IO[bytes]) -> None:
    """Pack some files and links of a folder, given by their paths in it. Raises OSError."""
    with _compressing(archive) as writer, write_tar(writer, "w|", tarfile.GNU_FORMAT) as tar:
        for name in sorted(names):
            tar.add(f"{root}/{name}", arcname=name, recursive=False)


def unpack_archive(archive: IO[bytes], folder: Path, max_bytes: int = _ANY_SIZE) -> None:
    """Unpack files, folders and links into an empty folder.

    Raises SandboxError for an archive that is broken, leads out of the folder, holds anything else or more than
    `max_bytes`; OSError when the folder cannot be written.
    """
    reader = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW).stream_reader(cast("BinaryIO", archive))
    left = max_bytes
    try:
        with closing(os.open(folder, _FOLDER)) as top, read_tar(cast("BinaryIO", reader), "r|") as tar:
            for member in tar:
                left -= member.size + tarfile.BLOCKSIZE
                if left < 0:
                    raise SandboxError(f"the archive holds more than {max_bytes:,} bytes")
                _make(tar, member, top)
    except _UNREADABLE as error:
        raise SandboxError(f"the archive cannot be unpacked: {error}") from error


def _make(tar: tarfile.TarFile, member: tarfile.TarInfo, top: int) -> None:
    parts = safe_parts(member.name)
    check_kind(member, parts)
    if member.isdir():
        os.close(open_folder(top, parts, missing="make"))
        return
    with closing(open_folder(top, parts[:-1], missing="make")) as parent:
        if member.issym():
            os.symlink(member.linkname, parts[-1], dir_fd=parent)
        elif member.isreg():
            with new_file(tar, member, parts[-1], parent) as descriptor:
                os.fchmod(descriptor, member.mode & 0o777)
        else:
            raise SandboxError(f"archive member {member.name!r}: hard links are refused")


@contextmanager
def _compressing(archive: IO[bytes]) -> Iterator[BinaryIO]:
    with zstandard.ZstdCompressor(level=_LEVEL).stream_writer(cast("BinaryIO", archive), closefd=False) as writer:
        yield cast("BinaryIO", writer)
