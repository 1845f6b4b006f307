"""What the tests of images share: a store for a moment, archives of anything, looks at what became of them."""

import asyncio
import io
import os
import stat
import sys
import tarfile
import tempfile
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import pytest

from seatrial.images.store import Store, StoredLayer, open_store

TIMEOUT_SEC = 60.0
needs_root = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="owners and whiteouts are looked at from outside, by root"
)

T = TypeVar("T")


def run(work: Callable[[Store], Awaitable[T]], root: Path) -> T:
    """Do something with a store that is opened for it."""

    async def play() -> T:
        async with asyncio.timeout(TIMEOUT_SEC), open_store(root) as store:
            return await work(store)

    return asyncio.run(play())


def entry(
    name: str, kind: bytes = tarfile.REGTYPE, content: bytes = b"", **fields: Any
) -> tuple[tarfile.TarInfo, bytes]:
    """A member with its content; `fields` are those of TarInfo."""
    member = tarfile.TarInfo(name)
    member.type, member.size = kind, len(content)
    member.mode = 0o755 if kind == tarfile.DIRTYPE else 0o644
    for key, value in fields.items():
        setattr(member, key, value)
    return member, content


def folder(name: str, **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, tarfile.DIRTYPE, **fields)


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, kind, linkname=target)


def archive(entries: Iterable[tuple[tarfile.TarInfo, bytes]], **options: Any) -> bytes:
    """A tar archive of members in this order."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=options.pop("format", tarfile.PAX_FORMAT)) as tar:
        for member, content in entries:
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def as_file(raw: bytes) -> BinaryIO:
    """A real file with some content, at its beginning."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller's to close
    file.write(raw)
    file.seek(0)
    return file


async def add(store: Store, raw: bytes, **options: Any) -> StoredLayer:
    with as_file(raw) as file:
        return await store.add_layer(file, **options)


def unpack(root: Path, *entries: tuple[tarfile.TarInfo, bytes], **options: Any) -> Path:
    """The directory that members become."""
    return run(lambda store: add(store, archive(entries, **options)), root).path


def look(path: Path) -> dict[str, str]:
    """What is below a directory: `d` folders, `-` files, `l` links, `x` whiteouts, with `!` for opaque folders."""
    found = {}
    for current in sorted(path.rglob("*")):
        status = current.lstat()
        kind = "x" if stat.S_ISCHR(status.st_mode) and status.st_rdev == 0 else stat.filemode(status.st_mode)[0]
        opaque = kind == "d" and "trusted.overlay.opaque" in os.listxattr(current)
        found[str(current.relative_to(path))] = kind + ("!" if opaque else "")
    return found
