"""The files that an agent brings along from this machine: what may be brought, what it was, and how it is packed."""

import hashlib
import io
import os
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from seatrial.errors import AgentSetupError, JobError, OversizeError
from seatrial.model.job import AgentFiles
from seatrial.model.record import AgentFilesRef
from seatrial.tasks.layout import Bounds, TaskFiles, digest_folder, ignored_below, list_files

MOST = Bounds(max_bytes=256 * 2**20, entries=20_000)
_LEFT_OUT = frozenset({".git", "__pycache__"})
_JOB = "job.json"  # what a job writes while it runs is not a part of its agent, nor is any job before it
_KEPT = 4  # archives of the agents of a run; beyond that they are packed anew


def lock_files(files: AgentFiles) -> AgentFiles:
    """The files with a whole path and with what they are now, unless that was settled before.

    Raises JobError for what cannot be brought into a sandbox.
    """
    source = os.path.abspath(files.source)  # noqa: PTH100 - links stay as they were named
    digest = files.digest or _digest(Path(source))
    return files.model_copy(update={"source": source, "digest": digest})


def have_changed(files: AgentFiles) -> bool:
    try:
        return _digest(Path(files.source)) != files.digest
    except JobError:
        return True


def describe_files(files: Iterable[AgentFiles]) -> tuple[AgentFilesRef, ...]:
    return tuple(AgentFilesRef(target=each.target, digest=each.digest) for each in files if each.digest)


@lru_cache(maxsize=_KEPT)
def pack_agent_files(files: tuple[AgentFiles, ...]) -> bytes:
    """An archive of locked files to unpack at `/`: owned by root, and anybody may read them.

    Raises AgentSetupError for files that have changed since: trials of one job must have the same agent.
    """
    _refuse_changed(files)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for each in files:
            for path, name in _placed(each):
                tar.add(path, arcname=name, recursive=False, filter=_readable)
    _refuse_changed(files)  # while they were read
    return buffer.getvalue()


def _refuse_changed(files: Iterable[AgentFiles]) -> None:
    if changed := [each.source for each in files if have_changed(each)]:
        raise AgentSetupError(f"{changed[0]}: the agent's files have changed since the job began; run a new job")


def _placed(files: AgentFiles) -> Iterator[tuple[str, str]]:
    """Every file and folder with its name in the archive, folders before what is in them."""
    source, target = Path(files.source), files.target.lstrip("/")
    if source.is_file():
        yield str(source), f"{target}/{source.name}"
        return
    found = list_agent_files(source)
    entries = sorted(found.regular | found.links)
    folders = {parent for entry in entries for parent in _parents(entry)}
    for entry in sorted({"", *folders, *entries}):
        yield f"{source}/{entry}", f"{target}/{entry}".rstrip("/")


def _parents(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _readable(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    executable = member.isdir() or member.mode & 0o100 or member.name.endswith(".sh")
    member.mode = 0o755 if executable else 0o644
    return member


def _digest(source: Path) -> str:
    try:
        if source.is_file():
            return _digest_file(source)
        return digest_folder(source, _checked(source, list_agent_files(source)))
    except FileNotFoundError as error:
        raise JobError(f"{source}: the agent's files are not there; name a folder or a file of this machine") from error
    except OversizeError as error:
        raise JobError(f"{error}. Bring a smaller folder, or install the agent with --agent-setup") from error
    except OSError as error:
        raise JobError(f"{source}: the agent's files cannot be read: {error.strerror}") from error


def _digest_file(source: Path) -> str:
    if source.stat().st_size > MOST.max_bytes:
        raise OversizeError(f"{source}: it has more than {MOST.max_bytes // 2**20} MiB, which is the limit")
    name = os.fsencode(source.name)
    return hashlib.sha256(b"%d:%b%b" % (len(name), name, source.read_bytes())).hexdigest()


def list_agent_files(source: Path) -> TaskFiles:
    """What a folder brings: neither folders of jobs, nor what a `.harborignore` leaves out.

    Raises OSError when it cannot be read, OversizeError for too much.
    """
    files = list_files(source, MOST, _LEFT_OUT, _JOB)
    ignored = ignored_below(source, files.regular)
    return replace(
        files,
        regular=frozenset(path for path in files.regular if not ignored(path)),
        links=frozenset(path for path in files.links if not ignored(path)),
    )


def _checked(source: Path, files: TaskFiles) -> TaskFiles:
    absolute = {link for link in files.links if os.readlink(f"{source}/{link}").startswith("/")}  # noqa: PTH115 - links are compared as text
    if outside := sorted({*files.escaping, *absolute}):
        target = os.readlink(f"{source}/{outside[0]}")  # noqa: PTH115 - as it was written
        raise JobError(
            f"{source}: {outside[0]} is a link to {target}, which will not be in the sandbox; put the file itself "
            "there, or a relative link to one that is in the folder"
        )
    if files.special:
        raise JobError(f"{source}: {files.special[0]} is neither a file nor a folder nor a link; take it out")
    return files
