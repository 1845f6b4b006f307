"""Reads a folder of verifier artifacts from disk into RawArtifacts: bounded, following no link, believing nothing."""

import errno
import os
import stat
from pathlib import Path, PurePosixPath

from seatrial.descriptors import raise_if_short
from seatrial.errors import ArtifactsError
from seatrial.model.artifacts import REWARD_JSON, REWARD_TXT, VERIFIER_FILES, RawArtifacts, RawFile
from seatrial.model.output import OutputSpec, VerifierSpec
from seatrial.scoring.details import MAX_DETAILS_BYTES
from seatrial.scoring.reward import MAX_REWARD_BYTES


def read_raw_file(path: Path, name: str, limit: int) -> RawFile:
    """The file at `path` as found, at most `limit` bytes of it. Never waits on a pipe.

    Raises nothing but the OSError of a process that has no descriptors left, which says nothing about the file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return _unopened(name, error)
    except ValueError:  # a NUL in the name
        return RawFile(name, "missing")
    try:
        return _read_opened(descriptor, name, limit)
    except OSError as error:
        return RawFile(name, "unreadable", reason=error.strerror or str(error))
    finally:
        os.close(descriptor)


def _read_opened(descriptor: int, name: str, limit: int) -> RawFile:
    status = os.fstat(descriptor)
    if stat.S_ISDIR(status.st_mode):
        return RawFile(name, "directory")
    if not stat.S_ISREG(status.st_mode):
        return RawFile(name, "special")
    if status.st_size > limit:
        return RawFile(name, "too_large", size=status.st_size)
    # Only now: opening a descriptor of a directory as a file raises.
    with open(descriptor, "rb", closefd=False) as file:
        data = file.read(limit + 1)
    return RawFile(name, "ok", data, len(data)) if len(data) <= limit else RawFile(name, "too_large", size=len(data))


def _unopened(name: str, error: OSError) -> RawFile:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return RawFile(name, "missing")
    if error.errno == errno.ELOOP:
        return RawFile(name, "symlink")
    if error.errno == errno.ENXIO:  # a socket, or a pipe nobody reads
        return RawFile(name, "special")
    raise_if_short(error)
    return RawFile(name, "unreadable", reason=error.strerror or str(error))


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
