"""Reading what a sandbox holds after the work: the verifier's files, the agent's output, and artifacts to keep.

Sizes are bounded, no link is followed, and nothing is believed: `scoring` decides what the bytes mean.
"""

import errno
import hashlib
import os
import posixpath
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Literal

from seatrial.descriptors import raise_if_short
from seatrial.errors import ArtifactsError, ContentError, TooLargeError
from seatrial.model.base import StrictModel, to_json
from seatrial.model.output import (
    REWARD_JSON,
    REWARD_TXT,
    VERIFIER_FILES,
    FileStatus,
    OutputSpec,
    RawArtifacts,
    RawFile,
    VerifierSpec,
)
from seatrial.model.record import ArtifactRecord, FileChanges
from seatrial.model.task import ArtifactSpec
from seatrial.sandbox.api import Sandbox
from seatrial.sandbox.host.disks import spare_bytes
from seatrial.sandbox.transfer import extract_files, new_archive
from seatrial.scoring.reward import MAX_DETAILS_BYTES, MAX_REWARD_BYTES
from seatrial.untrusted.files import FileTooLargeError, read_file
from seatrial.verify.integrity import is_elsewhere

_STATUSES: Mapping[int | None, FileStatus] = {
    errno.ENOENT: "missing",
    errno.ENOTDIR: "missing",
    errno.ELOOP: "symlink",
    errno.EISDIR: "directory",
    errno.ENXIO: "special",
}


def read_raw_file(path: Path, name: str, limit: int) -> RawFile:
    """The file at `path` as found, at most `limit` bytes of it. Never waits on a pipe.

    Raises nothing but the OSError of a process that has no descriptors left, which says nothing about the file.
    """
    try:
        data = read_file(path, limit)
    except FileTooLargeError as error:
        return RawFile(name, "too_large", size=error.size)
    except OSError as error:
        raise_if_short(error)
        if status := _STATUSES.get(error.errno):
            return RawFile(name, status)
        return RawFile(name, "unreadable", reason=error.strerror or str(error))
    except ValueError:  # a NUL in the name
        return RawFile(name, "missing")
    return RawFile(name, "ok", data, len(data))


def collect_artifacts(folder: Path, verifier: VerifierSpec, output: RawFile | None = None) -> RawArtifacts:
    """The verifier's files in `folder`. Raises ArtifactsError when the folder itself is not there."""
    if not folder.is_dir():
        raise ArtifactsError(f"{folder}: no such folder; point to what the verifier wrote into /logs/verifier")
    declared = {PurePosixPath(path).name for path in (verifier.reward_path, verifier.details_path) if path}
    files = {name: read_raw_file(folder / name, name, _limit(name)) for name in {*VERIFIER_FILES, *declared}}
    return RawArtifacts(files=files, output=output)


def _limit(name: str) -> int:
    return MAX_REWARD_BYTES if name in (REWARD_JSON, REWARD_TXT) else MAX_DETAILS_BYTES


def collect_output(path: Path, spec: OutputSpec) -> RawFile:
    """The agent's output at `path`, within the size its task allows."""
    return read_raw_file(path, spec.path or path.name, spec.max_bytes)


# The agent's output, as it is found in the sandbox.

MAX_ARTIFACT_BYTES = 256 * 2**20
PUBLISHED = ArtifactSpec(source="/logs/artifacts")
NO_ROOM = "this machine has no room for it"
MANIFEST = "manifest.json"
_MAX_LINKS = 40
_UNKNOWN = "a place that cannot be found out"
_UNCHANGED = FileChanges()


async def fetch_output(sandbox: Sandbox, spec: OutputSpec, changes: FileChanges = _UNCHANGED) -> RawFile | None:
    """The agent's output as it stands there; None when nobody knows where it would be.

    By the `changes` is known whether anything on its path may be a link.
    """
    if spec.path is None:
        return None
    output = await _fetch(sandbox, spec, spec.path)
    return await _with_links(sandbox, output) if _may_be_linked(output, changes) else output


def _may_be_linked(output: RawFile, changes: FileChanges) -> bool:
    """Whether something that may be a link was put in the place of an output, or of a folder above it."""
    if output.status == "symlink" or changes.truncated:
        return True
    if not changes.added and not changes.modified:
        return False
    above = {str(folder) for folder in PurePosixPath(output.name).parents}
    passed = above if output.status == "ok" else {output.name, *above}
    return not passed.isdisjoint((*changes.added, *changes.modified))


async def look_again(sandbox: Sandbox, output: RawFile | None, changes: FileChanges, *, alone: bool) -> RawFile | None:
    """An output after verification: links to the verifier's folders end there now, and may be new if not `alone`."""
    if output is None or output.leads_to or (alone and not _may_be_linked(output, changes)):
        return output
    output = await _with_links(sandbox, output)
    # Some engines do not tell of links whose end they cannot find, such as those through /proc.
    is_link = output.status == "missing" and output.name in (*changes.added, *changes.modified)
    return replace(output, leads_to=output.leads_to or _UNKNOWN) if is_link and alone else output


async def _with_links(sandbox: Sandbox, output: RawFile) -> RawFile:
    """The output with where links on its path lead, if that is elsewhere for a verifier.

    Links are followed one by one, as the verifier will, since what they lead to is not there yet.
    """
    place, waiting, left = "/", _parts(output.name), _MAX_LINKS
    while waiting and left:
        name = waiting.pop(0)
        place = posixpath.normpath(posixpath.join(place, name))
        if is_elsewhere(place):
            return replace(output, leads_to=posixpath.join(place, *waiting))
        target = await link_target(sandbox, place) if place != "/logs" and name != ".." else None
        if target is not None:
            left -= 1
            waiting[:0] = _parts(target)
            place = "/" if target.startswith("/") else posixpath.dirname(place)
    return output


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


async def link_target(sandbox: Sandbox, path: str) -> str | None:
    """What a link says; None for anything else, of which nothing is read."""
    with new_archive() as archive, suppress(FileNotFoundError, ContentError):
        await sandbox.get(path, archive, limit=0)
        archive.seek(0)
        with tarfile.open(fileobj=archive, mode="r:") as tar:
            member = tar.next()
            return member.linkname if member and member.issym() else None
    return None


async def _fetch(sandbox: Sandbox, spec: OutputSpec, path: str) -> RawFile:
    with new_archive() as archive:
        try:
            await sandbox.get(path, archive, limit=spec.max_bytes)
        except FileNotFoundError:
            return RawFile(path, "missing")
        except TooLargeError:
            return RawFile(path, "too_large", size=spec.max_bytes + 1)
        except ContentError as error:
            return RawFile(path, "special", reason=str(error))
        archive.seek(0)
        return _first_member(archive, path)


def _first_member(archive: BinaryIO, name: str) -> RawFile:
    with tarfile.open(fileobj=archive, mode="r:") as tar:
        member = tar.next()
        content = tar.extractfile(member) if member and member.isreg() else None
        if content is not None:
            data = content.read()
            return RawFile(name, "ok", data, len(data))
        if member and member.issym():
            return RawFile(name, "symlink", reason=f"to {member.linkname}")
        return RawFile(name, "directory")


# Artifacts: files that a task wants kept.


class KeptArtifact(StrictModel):
    """One entry of artifacts/manifest.json: what was asked for, and what came of it."""

    source: str
    destination: str
    type: Literal["file", "directory"] | None = None
    status: Literal["ok", "empty", "failed", "skipped"]
    service: str | None = None
    exclude: tuple[str, ...] = ()
    reason: str | None = None


class ArtifactManifest(StrictModel):
    """artifacts/manifest.json."""

    artifacts: tuple[KeptArtifact, ...]


async def keep_artifacts(sandbox: Sandbox, wanted: Sequence[ArtifactSpec], folder: Path) -> tuple[KeptArtifact, ...]:
    """Copy what a task wants kept into `folder`, with a manifest. What cannot be had fails nobody's trial."""
    kept: list[KeptArtifact] = []
    for spec in wanted:
        if any(earlier.destination == _destination(spec) for earlier in kept):
            kept.append(_entry(spec, "skipped", reason="an earlier artifact has the same destination"))
        else:
            kept.append(await _keep(sandbox, spec, folder))
    if any(entry.status != "empty" for entry in kept):
        folder.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240 - one directory, one small file
        (folder / MANIFEST).write_bytes(to_json(ArtifactManifest(artifacts=tuple(kept))))
    return tuple(kept)


async def _keep(sandbox: Sandbox, spec: ArtifactSpec, folder: Path) -> KeptArtifact:
    if spec.service not in (None, "main"):
        return _entry(spec, "failed", reason=f"there is no service {spec.service!r} here, only `main`")
    limit = min(MAX_ARTIFACT_BYTES, spare_bytes(Path(tempfile.gettempdir())), spare_bytes(folder.parent))
    with tempfile.TemporaryFile() as archive:
        try:
            await sandbox.get(spec.source, archive, limit=limit)
        except FileNotFoundError:
            return _entry(spec, "empty")
        except TooLargeError as error:
            return _entry(spec, "failed", reason=f"{NO_ROOM}: {error}" if limit < MAX_ARTIFACT_BYTES else str(error))
        except ContentError as error:
            return _entry(spec, "failed", reason=str(error))
        archive.seek(0)
        try:
            return _unpack(archive, spec, folder)
        except (tarfile.TarError, OSError) as error:  # names too long for this machine, a file where a folder was
            return _entry(spec, "failed", reason=f"cannot be kept: {error}")


def _unpack(archive: BinaryIO, spec: ArtifactSpec, folder: Path) -> KeptArtifact:
    with tarfile.open(fileobj=archive, mode="r:") as tar:
        # No links: one artifact may be kept below another, and must not be led elsewhere by it.
        plain = (member for member in tar if member.isreg() or member.isdir())
        members = [member for member in plain if not _excluded(member.name, spec.exclude)]
        is_folder = bool(members) and members[0].name == "."
        target = folder / _destination(spec)
        if not any(member.isreg() for member in members):
            return _entry(spec, "empty", "directory" if is_folder else "file")
        if not is_folder:
            members[0].name, target = target.name, target.parent
        extract_files(tar, members, target)
    return _entry(spec, "ok", "directory" if is_folder else "file")


def _excluded(name: str, patterns: Sequence[str]) -> bool:
    parts = PurePosixPath(name).parts
    return any(fnmatch(name, pattern) or any(fnmatch(part, pattern) for part in parts) for pattern in patterns)


def _destination(spec: ArtifactSpec) -> str:
    return spec.destination or spec.source.strip("/")


def _entry(
    spec: ArtifactSpec,
    status: Literal["ok", "empty", "failed", "skipped"],
    kind: Literal["file", "directory"] | None = None,
    reason: str | None = None,
) -> KeptArtifact:
    return KeptArtifact(
        source=spec.source,
        destination=_destination(spec),
        type=kind,
        status=status,
        service=spec.service,
        exclude=spec.exclude,
        reason=reason,
    )


def list_files(folder: Path, *below: str, limit: int = 1000) -> tuple[ArtifactRecord, ...]:
    """The first files `below` a folder with their digests, by paths relative to it."""
    found: list[ArtifactRecord] = []
    there = [folder / name for name in below if os.path.isdir(f"{folder}/{name}")]  # noqa: PTH112 - mostly none
    for path in (path for place in there for path in sorted(place.rglob("*"))):
        if path.is_symlink() or not path.is_file() or len(found) >= limit:
            continue
        with suppress(OSError), path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            name = path.relative_to(folder).as_posix().encode("utf-8", "backslashreplace").decode()
            found.append(ArtifactRecord(path=name, sha256=digest, size=path.stat().st_size))
    return tuple(found)
