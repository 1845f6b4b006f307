"""Files into and out of a container, through the engine's archives: nothing of the image has to work for it."""

import asyncio
import base64
import json
import posixpath
import tarfile
import tempfile
from dataclasses import dataclass
from typing import BinaryIO

from seatrial.errors import ContentError, SandboxError, TooLargeError
from seatrial.sandbox.engine import archives
from seatrial.sandbox.engine.archives import Contents, Parts
from seatrial.sandbox.engine.client import EngineClient, EngineError

_STATUS = "X-Docker-Container-Path-Stat"
_FOLDER, _LINK = 1 << 31, 1 << 27  # file modes as the Go language has them
_SPECIAL = 1 << 26 | 1 << 25 | 1 << 24 | 1 << 21
_MAX_LINKS = 40
_TIMEOUT_SEC = 600.0
# What headers and padding may take at most, beside files as small as can be.
_SHARE, _SLACK = 4, 2**20


@dataclass(frozen=True, slots=True)
class Status:
    """What is at a path of a container; a link's own, not that of what it leads to."""

    mode: int
    size: int
    changed: str
    target: str

    @property
    def is_folder(self) -> bool:
        """Whether it is a directory."""
        return bool(self.mode & _FOLDER) and not self.is_link

    @property
    def is_link(self) -> bool:
        """Whether it is a symbolic link."""
        return bool(self.mode & _LINK)

    @property
    def is_special(self) -> bool:
        """Whether it is a pipe, a socket or a device."""
        return bool(self.mode & _SPECIAL)


class Files:
    """The files of one container."""

    def __init__(self, client: EngineClient, container: str) -> None:
        self._client = client
        self._place = f"/containers/{container}/archive"

    async def status(self, path: str) -> Status | None:
        """What is there; None when nothing is, or only a link to nothing."""
        try:
            async with self._client.open("HEAD", self._place, None, {"path": path}) as response:
                found = json.loads(base64.b64decode(response.headers[_STATUS]))
        except EngineError as error:
            if error.status == 404 or await self._is_below_a_file(path):
                return None
            raise
        return Status(found["mode"], found["size"], found["mtime"], found.get("linkTarget", ""))

    async def _is_below_a_file(self, path: str) -> bool:
        """Engines call it a failure of theirs when a file is where a directory should be."""
        parent = posixpath.dirname(path)
        found = await self.status(parent) if parent not in ("", "/") else None
        return parent not in ("", "/") and (found is None or not found.is_folder)

    async def put(self, directory: str, archive: BinaryIO) -> None:
        """Unpack an archive below a directory, as `unpacking.unpack` does. Raises SandboxError."""
        base, missing = await self._nearest(directory)
        try:
            contents = await asyncio.to_thread(archives.examine, archive)
        except SandboxError:
            await self._make(base, missing)
            raise
        there = await self._existing(f"{base}/{'/'.join(missing)}", contents) if not missing else set()
        with tempfile.TemporaryFile() as rewritten:
            await asyncio.to_thread(archives.rewrite, archive, rewritten, missing, there)
            await self._send(base, rewritten)

    async def _make(self, base: str, missing: Parts) -> None:
        """Make the directory of an archive that turned out to be unusable: whoever comes next counts on it."""
        with tempfile.TemporaryFile() as archive:
            archives.write(archive, [archives.folder("/".join(missing[:end])) for end in range(1, len(missing) + 1)])
            await self._send(base, archive)

    async def put_members(self, members: list[tarfile.TarInfo]) -> None:
        """Have members without content made at the root, each in place of whatever is there."""
        with tempfile.TemporaryFile() as archive:
            archives.write(archive, members)
            await self._send("/", archive)

    async def _send(self, directory: str, archive: BinaryIO) -> None:
        try:
            async with self._client.open(
                "PUT", self._place, archive, {"path": directory or "/"}, timeout_sec=_TIMEOUT_SEC
            ):
                pass
        except EngineError as error:
            raise SandboxError(f"cannot unpack below {directory!r}: {error}") from error

    async def _nearest(self, directory: str) -> tuple[str, Parts]:
        """The nearest directory there is, with all links followed, and what is missing below it."""
        path = posixpath.normpath(f"/{directory}").replace("//", "/")
        missing: Parts = ()
        for _ in range(_MAX_LINKS):
            found = await self.status(path) if path != "/" else None
            if path == "/" or (found and found.is_folder):
                return path.rstrip("/"), missing
            if found and not found.is_link:
                raise SandboxError(f"{path!r} is in the way: expected a directory, found a file")
            if found:
                path = posixpath.normpath(posixpath.join(posixpath.dirname(path), found.target))
            else:
                path, name = posixpath.split(path)
                missing = (name, *missing)
        raise SandboxError(f"{directory!r} leads through too many links")

    async def _existing(self, top: str, contents: Contents) -> set[Parts]:
        """The folders of an archive that are there already. Raises SandboxError for what stands in their way."""
        there: set[Parts] = {()}
        for parts in sorted(contents.folders, key=len):
            if not parts or parts[:-1] not in there:
                continue
            path = f"{top.rstrip('/')}/{'/'.join(parts)}"
            found = await self.status(path)
            if found and found.is_folder:
                there.add(parts)
            elif found and parts not in contents.own:
                raise SandboxError(
                    f"archive member {contents.folders[parts]!r}: {parts[-1]!r} is in the way: expected a directory, "
                    "found a link or a file"
                )
        return there

    async def get(self, path: str, archive: BinaryIO, limit: int) -> None:
        """Pack a file or directory, as `archive.pack` does. Raises FileNotFoundError, ContentError, TooLargeError."""
        path = posixpath.normpath(f"/{path}").replace("//", "/")
        found = await self.status(path)
        if found is None:
            raise FileNotFoundError(2, "No such file or directory", path)
        if found.is_link:
            link = tarfile.TarInfo(posixpath.basename(path))
            link.type, link.linkname = tarfile.SYMTYPE, found.target
            archives.write(archive, [link])
        elif found.is_special:
            raise ContentError(
                f"{path!r} is a pipe, a socket or a device: only files, directories and links are packed"
            )
        elif not found.is_folder and found.size > limit:
            raise _too_large(path, limit)
        else:
            await self._fetch(path, archive, limit)

    async def _fetch(self, path: str, archive: BinaryIO, limit: int) -> None:
        with tempfile.TemporaryFile() as packed:
            left = limit * _SHARE + _SLACK
            try:
                async with self._client.open(
                    "GET", self._place, None, {"path": path}, timeout_sec=_TIMEOUT_SEC
                ) as response:
                    async for data in response.content.iter_any():
                        left -= len(data)
                        if left < 0:
                            raise _too_large(path, limit)
                        packed.write(data)
            except EngineError as error:
                if error.status == 404:
                    raise FileNotFoundError(2, "No such file or directory", path) from error
                raise ContentError(f"{path!r} cannot be packed: {error}") from error
            packed.seek(0)
            try:
                await asyncio.to_thread(archives.select, packed, archive, path, limit)
            except tarfile.TarError as error:
                raise ContentError(f"{path!r} cannot be packed: {error}") from error
            archive.flush()


def _too_large(path: str, limit: int) -> TooLargeError:
    return TooLargeError(f"{path!r} is larger than the limit of {limit} bytes")
