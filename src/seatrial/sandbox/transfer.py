"""Files in and out of a sandbox, on top of the tar archives every backend speaks."""

import io
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO

from seatrial.errors import ContentError, OversizeError
from seatrial.sandbox.api import Phase, Sandbox
from seatrial.sandbox.archives import add_file, folder_member

_MEMORY_BYTES = 16 * 2**20
_MOST_PACKED = 2**30

Omissions = Callable[[Path], Callable[[str], bool]]
"""For a directory that is packed, whether a path within it is left out; that of a directory ends in a slash."""


def _no_omissions(_: Path) -> Callable[[str], bool]:
    return lambda _: False


def new_archive() -> BinaryIO:
    """An empty archive file that exists in memory only."""
    return os.fdopen(os.memfd_create("archive"), "w+b")


async def put_file(sandbox: Sandbox, path: str, content: bytes, *, mode: int = 0o644, phase: Phase = "agent") -> None:
    """Write one file; its directory is made if needed, and a link in its place is replaced, not followed."""
    directory, _, name = path.rpartition("/")
    await put_files(sandbox, directory or "/", {name: content}, mode=mode, phase=phase)


async def put_files(
    sandbox: Sandbox, directory: str, files: Mapping[str, bytes], *, mode: int = 0o644, phase: Phase = "agent"
) -> None:
    """Write several files below a directory, which is made if needed."""
    await put_packed(sandbox, directory, pack_files(files, mode=mode), phase=phase)


async def put_tree(sandbox: Sandbox, directory: str, *sources: Path, phase: Phase = "agent") -> None:
    """Copy directories of this machine over each other, owned by root inside, shell scripts executable."""
    await put_packed(sandbox, directory, pack_trees(*sources), phase=phase)


async def put_packed(sandbox: Sandbox, directory: str, packed: bytes, *, phase: Phase = "agent") -> None:
    """Unpack what `pack_files` or `pack_trees` has packed below a directory, which is made if needed."""
    with new_archive() as archive:
        archive.write(packed)
        archive.seek(0)
        await sandbox.put(directory, archive, phase=phase)


def pack_files(files: Mapping[str, bytes], *, mode: int = 0o644) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, content in files.items():
            add_file(tar, name, content, mode)
    return buffer.getvalue()


def join_archives(*archives: bytes) -> bytes:
    """One archive of several; where two have the same name, the later one stays when they are unpacked."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as joined:
        for archive in archives:
            with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
                for member in tar:
                    joined.addfile(member, tar.extractfile(member) if member.isreg() else None)
    return buffer.getvalue()


def pack_trees(*sources: Path, skip: Container[str] = (), omit: Omissions = _no_omissions) -> bytes:
    """An archive of directories laid over each other, owned by root, shell scripts executable.

    What is named in `skip` is left out, at any depth, and so is what `omit` says of each directory. The archive is in
    memory: raises OversizeError before more than 1 GiB is read.
    """
    return _pack([(".", source) for source in sources], {}, {}, skip, omit)


def pack_layout(
    files: Mapping[str, bytes],
    trees: Mapping[str, Path],
    *,
    folders: Mapping[str, int],
    skip: Container[str] = (),
    omit: Omissions = _no_omissions,
) -> bytes:
    """An archive to unpack at `/`: files and directories by where they go, otherwise as `pack_trees` has them.

    The directories of the files are in it too, so that whatever is in their place gives way, and `folders`, which have
    a mode each; those above come first.
    """
    placed = [(directory.strip("/"), source) for directory, source in trees.items()]
    named = {path.lstrip("/"): content for path, content in files.items()}
    modes = dict.fromkeys(sorted({name.rpartition("/")[0] for name in named}), 0o755)
    return _pack(placed, named, {**modes, **{path.lstrip("/"): mode for path, mode in folders.items()}}, skip, omit)


def _pack(
    trees: Sequence[tuple[str, Path]],
    files: Mapping[str, bytes],
    folders: Mapping[str, int],
    skip: Container[str],
    omit: Omissions,
) -> bytes:
    size = 0

    def as_inside(
        member: tarfile.TarInfo, place: str, source: Path, omitted: Callable[[str], bool]
    ) -> tarfile.TarInfo | None:
        nonlocal size
        name = member.name.rpartition("/")[2]
        within = member.name[len(place) + 1 :]
        if name in skip or (within and omitted(f"{within}/" if member.isdir() else within)):
            return None
        size += member.size  # of its content, which is read only afterwards
        if size > _MOST_PACKED:
            raise OversizeError(
                f"{source}: it has {size / 2**30:,.1f} GiB or more to be put into the sandbox, {within or name} "
                f"included; the limit is {_MOST_PACKED / 2**30:g} GiB. Bring large files by the image (its Dockerfile)"
            )
        member.uid = member.gid = 0
        member.uname = member.gname = "root"
        if name.endswith(".sh"):
            member.mode |= 0o555
        return member

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for folder, mode in folders.items():
            tar.addfile(folder_member(folder, mode))
        for name, content in files.items():
            add_file(tar, name, content)
        for place, source in trees:
            tar.add(source, arcname=place, filter=partial(as_inside, place=place, source=source, omitted=omit(source)))
    return buffer.getvalue()


async def get_file(sandbox: Sandbox, path: str, *, limit: int, phase: Phase = "agent") -> bytes:
    """The bytes of one regular file. Raises FileNotFoundError, or ContentError when it is something else."""
    with new_archive() as archive:
        await sandbox.get(path, archive, phase=phase, limit=limit)
        archive.seek(0)
        with tarfile.open(fileobj=archive, mode="r:") as tar:
            member = tar.next()
            content = tar.extractfile(member) if member and member.isreg() else None
            if content is None:
                raise ContentError(f"{path}: expected a regular file in the sandbox")
            return content.read()


async def get_tree(sandbox: Sandbox, path: str, target: Path, *, limit: int, phase: Phase = "agent") -> None:
    """Copy the files below a directory, or one file, to this machine; `target` is made if there is something.

    Links are left out, and so is what would lead out of `target`.
    """
    with new_archive() if limit <= _MEMORY_BYTES else tempfile.TemporaryFile() as archive:
        await sandbox.get(path, archive, phase=phase, limit=limit)
        archive.seek(0)
        with tarfile.open(fileobj=archive, mode="r:") as tar:
            extract_files(tar, tar, target)


def extract_files(tar: tarfile.TarFile, members: Iterable[tarfile.TarInfo], target: Path) -> None:
    """Write files and directories of an archive below `target`, and nothing else of it: a link can point anywhere.

    Where no link is ever made, a name without `..` cannot lead out. They belong to us and are only as executable as
    they were. Raises OSError for what this machine cannot store.
    """
    target.mkdir(parents=True, exist_ok=True)
    for member in members:
        parts = [part for part in member.name.split("/") if part not in ("", ".")]
        if member.name.startswith("/") or ".." in parts or not _is_a_name(member.name):
            continue
        path = target.joinpath(*parts)
        if member.isdir():
            path.mkdir(parents=True, exist_ok=True)
        elif member.isreg() and (content := tar.extractfile(member)) is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                shutil.copyfileobj(content, file)
            path.chmod(0o755 if member.mode & 0o100 else 0o644)


def _is_a_name(text: str) -> bool:
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:  # half a letter
        return False
