"""RUN: a command in a sandbox on the layers so far, and what it changed as a new layer."""

import io
import os
import shutil
import tarfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from seatrial.concurrency import finish
from seatrial.images.building.events import StepLog
from seatrial.images.building.layer_view import LayerView
from seatrial.images.building.words import WordError
from seatrial.images.store import Store
from seatrial.images.workers import remove_trees
from seatrial.sandbox.api import ExecSpec, Image, Network, SandboxBackend, SandboxSpec
from seatrial.sandbox.archive import closing, open_folder
from seatrial.sandbox.ca_file import ca_variables
from seatrial.sandbox.session import open_sandbox

_SCRIPTS = ".seatrial-scripts"
_CA = f"/{_SCRIPTS}/ca.pem"
_NOWHERE = Path(os.devnull)
_MAX_LOG = 64 * 2**20
_TAIL_LINES = 30
# Every sandbox has its own, and images leave them to whoever runs them.
_OF_THE_MACHINE = ("etc/hostname", "etc/hosts", "etc/resolv.conf")


@dataclass(frozen=True, slots=True)
class RunCommand:
    """What to run, and how."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    workdir: str
    user: str | None
    network: Network
    timeout_sec: float | None
    script: tuple[str, str] | None = None
    caches: tuple[str, ...] = ()
    ca: bytes | None = None
    """Certificates to trust meanwhile; they do not get into the layer."""
    files: bytes = b""
    """An archive of what is to be there before, and stays."""


async def run_step(backend: SandboxBackend, store: Store, image: Image, command: RunCommand, log: StepLog) -> Path:
    """Run a command; returns a tree for the store with what it changed. Raises WordError when it fails."""
    async with open_sandbox(backend, SandboxSpec(image=image, workdir=command.workdir)) as sandbox:
        result = await sandbox.exec(
            ExecSpec(
                command.argv,
                env={**ca_variables(_CA), **command.env} if command.ca else command.env,
                cwd=command.workdir,
                user=command.user,
                timeout_sec=command.timeout_sec,
                network=command.network,
                stdout_path=_NOWHERE,
                stderr_path=_NOWHERE,
                max_output=_MAX_LOG,
                on_output=log.write,
                files=("/", _pack(command)) if _needs_files(command) else None,
            )
        )
        if result.exit_code != 0:
            raise WordError(_failure(result.exit_code, command, log))
        tree = store.new_tree()
        try:
            await sandbox.snapshot(tree)
            _tidy(tree, LayerView(image.layers, image.base), command.caches)
        except BaseException:
            await finish(remove_trees(tree.parent))
            raise
    return tree


def script_path(name: str) -> str:
    """Where a script of a Dockerfile lies while it runs."""
    return f"/{_SCRIPTS}/{name.replace('/', '_')}"


def _needs_files(command: RunCommand) -> bool:
    return bool(command.script or command.caches or command.ca or command.files)


def _pack(command: RunCommand) -> bytes:
    """What the command needs to be there: its script, and the directories that are mounted elsewhere."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for cache in command.caches:
            folder = tarfile.TarInfo(cache.strip("/"))
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(folder)
        if command.script:
            name, text = command.script
            _add(tar, script_path(name), text.encode("utf-8", "surrogateescape"))
        if command.ca:
            _add(tar, _CA, command.ca)
        if command.files:
            with tarfile.open(fileobj=io.BytesIO(command.files), mode="r:") as given:
                for member in given:
                    tar.addfile(member, given.extractfile(member) if member.isreg() else None)
    return buffer.getvalue()


def _add(tar: tarfile.TarFile, path: str, content: bytes) -> None:
    file = tarfile.TarInfo(path.lstrip("/"))
    file.size, file.mode = len(content), 0o755
    tar.addfile(file, io.BytesIO(content))


def _failure(exit_code: int | None, command: RunCommand, log: StepLog) -> str:
    if exit_code is None:
        ending = f"it was ended after {command.timeout_sec:g} seconds"
    elif exit_code < 0:
        ending = f"it was ended by signal {-exit_code}"
    else:
        ending = f"it ended with exit code {exit_code}"
    shown = "".join(f"\n    {line}" for line in log.tail.splitlines()[-_TAIL_LINES:])
    return f"{ending}; the end of its output (all of it is in {log.path}):{shown}" if shown else f"{ending}, silently"


def _tidy(tree: Path, below: LayerView, caches: Sequence[str]) -> None:
    """Take out what belongs to the sandbox and not to the image. Whatever ran there decided what its links say."""
    with closing(os.open(tree, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as top:
        for path in (*_OF_THE_MACHINE, _SCRIPTS, *caches):
            _remove(top, [part for part in path.split("/") if part not in ("", ".")])
        etc = below.look("/etc")
        with suppress(OSError):  # it holds something, or is not there
            if etc and _looks_like(etc.status, os.lstat("etc", dir_fd=top)):
                os.rmdir("etc", dir_fd=top)


def _remove(top: int, parts: Sequence[str]) -> None:
    if not parts:  # whoever mounts something over the whole root keeps what is there
        return
    with suppress(FileNotFoundError), closing(open_folder(top, parts[:-1])) as folder:
        try:
            os.unlink(parts[-1], dir_fd=folder)
        except IsADirectoryError:
            shutil.rmtree(parts[-1], dir_fd=folder)


def _looks_like(one: os.stat_result, other: os.stat_result) -> bool:
    return (one.st_mode, one.st_uid, one.st_gid) == (other.st_mode, other.st_uid, other.st_gid)
