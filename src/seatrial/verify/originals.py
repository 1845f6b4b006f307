"""The files of an image: what was there before the agent came, and how that is put back.

`Originals` reads layers of this machine, or asks a fresh sandbox of the image. `restore` is for sandboxes whose
verifier cannot have a system of its own; `save` and `lay_out` keep what the agent had there. `curate.py` decides which
files.
"""

import hashlib
import io
import os
import posixpath
import shlex
import stat
import tarfile
import tempfile
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence, Set
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal, Protocol

from seatrial.errors import ContentError, SandboxError
from seatrial.sandbox.api import MAX_ARCHIVE_BYTES, ExecSpec, Image, Sandbox, SandboxBackend, SandboxSpec, open_sandbox
from seatrial.sandbox.archives import link_member
from seatrial.sandbox.layers import LayerFinder, find_in_layers, names_in_layers
from seatrial.sandbox.transfer import get_file, new_archive, pack_files, put_packed

Kind = Literal["file", "folder"]

_HOST_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/etc", "/opt")
# What to do comes on standard input: there may be many names, of any bytes.
_SHELL = ("/bin/sh", "-s")
_LOOK = b"""look() {
if [ ! -e "$1" ]; then echo nothing
elif [ -L "$1" ] || [ -f "$1" ]; then echo file
elif [ -d "$1" ]; then echo folder
else echo nothing; fi
}
"""
_LOOK_SEC = 60.0
_PACK_SEC = 600.0
_AT_ONCE = 500
_MAX_TEXT_BYTES = 2**20
_LIST = rb"""list() {
printf '/%s\n' "$1"
cd "$1" 2>/dev/null || return
for name in * .[!.]*; do if [ -e "$name" ] || [ -L "$name" ]; then printf ' %s\n' "$name"; fi; done
}
"""


class Originals(Protocol):
    """The files of one image."""

    async def kinds(self, paths: Sequence[str]) -> Mapping[str, Kind]:
        """What the image has at each path; where it has nothing, the path is left out. A link counts as a file."""
        ...

    async def names(self, folders: Sequence[str]) -> Mapping[str, frozenset[str]]:
        """The names of what the image has in each folder; those that it does not have may be left out."""
        ...

    async def texts(self, paths: Sequence[str]) -> Mapping[str, str]:
        """What the image's files say; those that are missing, large or no files are left out."""
        ...

    async def pack(self, known: Mapping[str, Kind], tar: tarfile.TarFile) -> None:
        """Add what `kinds` has found, folders with everything in them."""
        ...


@asynccontextmanager
async def open_originals(backend: SandboxBackend, image: Image) -> AsyncIterator[Originals]:
    """What an image has. One that is nowhere on this machine is asked by a sandbox, made at the first question."""
    if image.layers or image.base == "host":
        yield LocalOriginals(image)
        return
    async with AsyncExitStack() as stack:
        yield RemoteOriginals(backend, image, stack)


class LocalOriginals:
    """The files of an image whose layers are directories of this machine. Links in them are never followed here."""

    def __init__(self, image: Image) -> None:
        self._layers = tuple(map(str, reversed(image.layers)))
        self._is_host = image.base == "host"

    async def kinds(self, paths: Sequence[str]) -> Mapping[str, Kind]:
        found: dict[str, Kind] = {}
        finders: dict[tuple[str, ...], LayerFinder] = {}
        for path in paths:
            roots = self._roots(path)
            place = self._readable(finders.setdefault(roots, LayerFinder(roots)).find(path))
            if place and (kind := _kind_of(place)):
                found[path] = kind
        return found

    async def names(self, folders: Sequence[str]) -> Mapping[str, frozenset[str]]:
        return {folder: names for folder in folders if (names := self._names(folder))}

    async def texts(self, paths: Sequence[str]) -> Mapping[str, str]:
        found = {path: _read_text(place) for path in paths if (place := self._find(path))}
        return {path: text for path, text in found.items() if text is not None}

    async def pack(self, known: Mapping[str, Kind], tar: tarfile.TarFile) -> None:
        """Add files with their content in the topmost layer that has them."""
        for path, kind in known.items():
            if kind == "file":
                self._add_file(path, tar)
            else:
                self._add_folder(path, tar)

    def _add_folder(self, path: str, tar: tarfile.TarFile) -> None:
        place = self._find(path)
        if place is None:
            return
        member = _member(path, place)
        member.type = tarfile.DIRTYPE
        tar.addfile(member)
        for name in sorted(self._names(path)):
            below = f"{path}/{name}"
            (self._add_folder if self._kind(below) == "folder" else self._add_file)(below, tar)

    def _add_file(self, path: str, tar: tarfile.TarFile) -> None:
        if self._kind(path) == "file" and (place := self._find(path)):
            member = _member(path, place)
            content = place.read_bytes() if member.isreg() else b""
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))

    def _kind(self, path: str) -> Kind | None:
        place = self._find(path)
        return _kind_of(place) if place else None

    def _find(self, path: str) -> Path | None:
        """Where this machine keeps a file of the image."""
        return self._readable(find_in_layers(self._roots(path), path))

    def _readable(self, found: str | None) -> Path | None:
        place = Path(found) if found else None
        # What an ordinary user of this machine may not read is not in the host image.
        is_private = place and self._is_host and not place.lstat().st_mode & 0o004
        return None if is_private else place

    def _names(self, folder: str) -> frozenset[str]:
        return names_in_layers(self._roots(folder), folder)

    def _roots(self, path: str) -> tuple[str, ...]:
        # Nothing else of this machine is in the host image, so nothing else may come from it.
        host = ("",) if self._is_host and path.startswith(_HOST_FOLDERS) else ()
        return (*self._layers, *host)


def _kind_of(place: Path) -> Kind | None:
    mode = place.lstat().st_mode
    return "folder" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) or stat.S_ISLNK(mode) else None


def _read_text(place: Path) -> str | None:
    """What a small file of a layer says, None for anything else."""
    status = place.lstat()
    if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_TEXT_BYTES:
        return None
    return place.read_text(encoding="utf-8", errors="replace")


def _member(path: str, found: Path) -> tarfile.TarInfo:
    member = tarfile.TarInfo(path.lstrip("/"))
    member.mode = stat.S_IMODE(found.lstat().st_mode)
    if found.is_symlink():
        member.type, member.linkname = tarfile.SYMTYPE, str(found.readlink())
    return member


class RemoteOriginals:
    """The files of an image that only a daemon has, seen from a sandbox where nobody has been before."""

    def __init__(self, backend: SandboxBackend, image: Image, stack: AsyncExitStack) -> None:
        self._backend = backend
        self._image = image
        self._stack = stack
        self._sandbox: Sandbox | None = None

    async def kinds(self, paths: Sequence[str]) -> Mapping[str, Kind]:
        """What a shell of the image finds, all in one go. A link to nothing is nothing."""
        if not paths:
            return {}
        questions = "".join(f"look {shlex.quote(path)}\n" for path in paths)
        sandbox = await self._fresh()
        spec = ExecSpec(_SHELL, user=0, stdin=_LOOK + os.fsencode(questions), timeout_sec=_LOOK_SEC)
        result = await sandbox.exec(spec)
        answers = result.stdout.decode(errors="replace").split()
        if result.exit_code != 0 or len(answers) != len(paths):
            said = result.stderr.decode(errors="replace").strip()[-200:]
            raise SandboxError(
                f"{self._image.reference}: its /bin/sh cannot be asked which files the image has, to put back those "
                f"that the agent changed (exit code {result.exit_code}): {said}"
            )
        found: dict[str, Kind] = {}
        for path, answer in zip(paths, answers, strict=True):
            if answer in ("file", "folder"):
                found[path] = "file" if answer == "file" else "folder"
        return found

    async def names(self, folders: Sequence[str]) -> Mapping[str, frozenset[str]]:
        """What a shell of the image finds in folders, all in one go."""
        script = _LIST + os.fsencode("".join(f"list {shlex.quote(folder)}\n" for folder in folders))
        result = await (await self._fresh()).exec(ExecSpec(_SHELL, user=0, stdin=script, timeout_sec=_LOOK_SEC))
        found: dict[str, set[str]] = {}
        names: set[str] = set()
        for line in result.stdout.decode("utf-8", "backslashreplace").splitlines():
            if line.startswith("//"):
                names = found.setdefault(line[1:], set())
            else:
                names.add(line.removeprefix(" "))
        return {folder: frozenset(names) for folder, names in found.items() if names}

    async def texts(self, paths: Sequence[str]) -> Mapping[str, str]:
        """What the image's files say, one by one: there are few."""
        if not paths:
            return {}
        sandbox, found = await self._fresh(), {}
        for path in paths:
            with suppress(FileNotFoundError, ContentError):
                found[path] = (await get_file(sandbox, path, limit=_MAX_TEXT_BYTES)).decode("utf-8", "replace")
        return found

    async def pack(self, known: Mapping[str, Kind], tar: tarfile.TarFile) -> None:
        """Add files by the image's own tar, and what it does not give one by one."""
        for path in (path for path, kind in known.items() if kind == "folder"):
            await self._pack_folder(path, tar)
        files = [path for path, kind in known.items() if kind == "file"]
        plain = [path for path in files if "\\" not in path]  # some take what follows one for a code
        packed: set[str] = set()
        for start in range(0, len(plain), _AT_ONCE):
            packed |= await self._pack_together(set(plain[start : start + _AT_ONCE]), tar)
        for path in files:
            if path not in packed:
                await self._pack_file(path, tar)

    async def _fresh(self) -> Sandbox:
        if self._sandbox is None:
            spec = SandboxSpec(image=self._image, workdir="/")
            self._sandbox = await self._stack.enter_async_context(open_sandbox(self._backend, spec))
        return self._sandbox

    async def _pack_folder(self, path: str, tar: tarfile.TarFile) -> None:
        with tempfile.TemporaryFile() as archive:
            await (await self._fresh()).get(path, archive)
            archive.seek(0)
            with tarfile.open(fileobj=archive, mode="r:") as source:
                for member in source:
                    name = member.name.removeprefix(".").removeprefix("/")
                    _copy(source, member, f"{path}/{name}".rstrip("/"), tar)

    async def _pack_together(self, paths: Set[str], tar: tarfile.TarFile) -> set[str]:
        """Add what the image's tar gives: a daemon takes long for each file, and an upgrade changes hundreds."""
        names = " ".join(shlex.quote(f".{path}") for path in sorted(paths))
        packed: set[str] = set()
        with tempfile.NamedTemporaryFile() as archive:
            spec = ExecSpec(
                _SHELL,
                user=0,
                stdin=os.fsencode(f"exec tar -c -f - -C / {names}\n"),
                timeout_sec=_PACK_SEC,
                stdout_path=Path(archive.name),
                max_output=MAX_ARCHIVE_BYTES,
            )
            result = await (await self._fresh()).exec(spec)
            if result.exit_code != 0 or result.truncated:  # there may be none
                return packed
            with tarfile.open(archive.name, mode="r:") as source:
                for member in source:
                    if (path := f"/{member.name.removeprefix('./')}") in paths:
                        _copy(source, member, path, tar)
                        packed.add(path)
        return packed

    async def _pack_file(self, path: str, tar: tarfile.TarFile) -> None:
        with tempfile.TemporaryFile() as archive:
            try:
                await (await self._fresh()).get(path, archive)
            except FileNotFoundError as error:  # a link, perhaps, to what only a running container has
                raise SandboxError(f"{self._image.reference}: {path} of the image cannot be read: {error}") from error
            archive.seek(0)
            with tarfile.open(fileobj=archive, mode="r:") as source:
                for member in source:
                    _copy(source, member, path, tar)


def _copy(source: tarfile.TarFile, member: tarfile.TarInfo, path: str, tar: tarfile.TarFile) -> None:
    """Add a file or link of another archive under a name of its own, a hard link as a file."""
    copy = tarfile.TarInfo(path.lstrip("/"))
    copy.mode, copy.uid, copy.gid, copy.mtime = member.mode, member.uid, member.gid, member.mtime
    if member.issym() or member.isdir():
        copy.type, copy.linkname = member.type, member.linkname
        tar.addfile(copy)
    elif content := source.extractfile(member):
        copy.size = content.seek(0, os.SEEK_END)
        content.seek(0)
        tar.addfile(copy, content)


# Putting back. The agent's processes must be gone: they would undo it.

# As good as nothing: a link to where nobody can put anything. It takes no room on a disk.
_NOWHERE = "/proc/removed"
_REMOVE = ("/bin/sh", "-c", "xargs -0 rm -rf --")
_EACH_ODD = 'cd "$1" && for name in * .[!.]*; do case "$name" in (*[!\\ -~]*) rm -rf -- "./$name";; esac; done'
_REMOVE_ODD = ("/bin/sh", "-c", f"LC_ALL=C; export LC_ALL; xargs -0 -n 1 /bin/sh -c '{_EACH_ODD}' sh")
_REMOVAL_TIMEOUT_SEC = 60.0
_MAX_SAVED = 200
_MAX_SAVED_BYTES = 64 * 2**20
_MAX_COMPARED = 2000
_MAX_COMPARED_BYTES = 256 * 2**20


@dataclass(frozen=True, slots=True)
class Saved:
    """Files as the agent left them: packed, each by its path, and those that were not there."""

    archives: Mapping[str, bytes] = field(default_factory=dict)
    missing: tuple[str, ...] = ()


async def save(sandbox: Sandbox, paths: Collection[str]) -> Saved | None:
    """Keep some files as they are; None when they are too many or too large for that."""
    if len(paths) > _MAX_SAVED:
        return None
    archives: dict[str, bytes] = {}
    missing, room = [], _MAX_SAVED_BYTES
    for path in paths:
        with new_archive() as archive:
            try:
                await sandbox.get(path, archive, limit=room)
            except FileNotFoundError:
                missing.append(path)
                continue
            except ContentError:
                return None
            archive.seek(0)
            archives[path] = archive.read()
            room -= len(archives[path])
    return Saved(archives, tuple(missing)) if room >= 0 else None


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What tells a file or a link from others; `leads_to` is where a link leads."""

    content: str = ""
    leads_to: str | None = None


async def fingerprints(sandbox: Sandbox, paths: Iterable[str]) -> dict[str, Fingerprint]:
    """The fingerprints of what a sandbox has at some paths; an empty one where there is nothing.

    Only so many are looked at; folders, and what is too large or cannot be read, are left out.
    """
    found, room = {}, _MAX_COMPARED_BYTES
    for path in sorted(paths)[:_MAX_COMPARED]:
        with new_archive() as archive, suppress(ContentError):
            try:
                await sandbox.get(path, archive, limit=room)
            except FileNotFoundError:
                found[path] = Fingerprint()
                continue
            room -= archive.tell()
            archive.seek(0)
            if fingerprint := _fingerprint(path, archive):
                found[path] = fingerprint
    return found


def _fingerprint(path: str, archive: BinaryIO) -> Fingerprint | None:
    with tarfile.open(fileobj=archive, mode="r:") as tar:
        member = tar.next()
        if member is not None and member.issym():
            leads_to = posixpath.normpath(posixpath.join(posixpath.dirname(path), member.linkname))
            return Fingerprint("link", leads_to)
        content = tar.extractfile(member) if member is not None and member.isreg() else None
        if member is None or content is None:
            return None
        return Fingerprint(f"{member.mode:o} {hashlib.sha256(content.read()).hexdigest()}")


async def lay_out(sandbox: Sandbox, saved: Saved) -> bool:
    """Put files as they were saved; False where a sandbox has no room for them, which is its agent's doing."""
    await remove(sandbox, [*saved.missing, *saved.archives])
    try:
        for path, archive in saved.archives.items():
            await put_packed(sandbox, path.rpartition("/")[0] or "/", archive)
    except SandboxError:
        return False
    return True


async def restore(sandbox: Sandbox, originals: Originals, paths: Collection[str], rewritten: Mapping[str, str]) -> None:
    """Make files of the sandbox as the image has them; those that it does not have are removed. Some say a new text."""
    known = await originals.kinds(sorted(paths))
    strange = [path for path in sorted(paths) if path not in known]
    with tempfile.TemporaryFile() as archive:
        with tarfile.open(fileobj=archive, mode="w") as tar:
            await originals.pack(known, tar)
            _add_links(strange, tar)
        archive.seek(0)
        try:
            await sandbox.put("/", archive)
        except SandboxError:
            # A full disk, most likely, and whoever filled it shall not gain by it: what is not there forges nothing.
            await _take_away(sandbox, paths)
    await remove(sandbox, strange)
    await _remove_odd(sandbox, strange)
    if rewritten:
        await put_packed(
            sandbox, "/", pack_files({path.lstrip("/"): text.encode() for path, text in rewritten.items()})
        )


async def _take_away(sandbox: Sandbox, paths: Iterable[str]) -> None:
    with tempfile.TemporaryFile() as archive:
        with tarfile.open(fileobj=archive, mode="w") as tar:
            _add_links(paths, tar)
        archive.seek(0)
        await sandbox.put("/", archive)


def _add_links(paths: Iterable[str], tar: tarfile.TarFile) -> None:
    for path in paths:
        tar.addfile(link_member(path.lstrip("/"), _NOWHERE))


async def _remove_odd(sandbox: Sandbox, paths: Iterable[str]) -> None:
    """Remove what has odd bytes in its name, which nobody could tell: all such entries of the folders they are in."""
    folders = {path.rpartition("/")[0] for path in paths if not path.isascii() or "\\" in path}
    if folders:
        names = b"".join(os.fsencode(folder) + b"\0" for folder in sorted(folders))
        with suppress(SandboxError):
            await sandbox.exec(ExecSpec(_REMOVE_ODD, cwd="/", user=0, stdin=names, timeout_sec=_REMOVAL_TIMEOUT_SEC))


async def remove(sandbox: Sandbox, paths: Collection[str]) -> None:
    """Remove files and folders, as far as there are any."""
    if paths:
        names = b"".join(os.fsencode(path) + b"\0" for path in paths)
        with suppress(SandboxError):
            await sandbox.exec(ExecSpec(_REMOVE, cwd="/", user=0, stdin=names, timeout_sec=_REMOVAL_TIMEOUT_SEC))
