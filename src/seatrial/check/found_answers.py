"""The answers in an end state that was accepted: the output of the task, and other small files that were written.

Archives and folders may be strangers': only plain files are taken, few and small ones.
"""

import posixpath
import tarfile
from collections.abc import Iterator
from pathlib import Path

import zstandard

from seatrial.check.cases import AcceptedAnswer
from seatrial.check.golden_files import GoldenAnswer
from seatrial.model.output import OutputFormat, OutputSpec, format_of
from seatrial.tasks.layout import read_file

_MOST_BYTES = 2**20
_MOST_OTHER_BYTES = 128 * 2**10
_MOST_OTHERS = 4
_MOST_MEMBERS = 50_000
_BY_PROGRAMS = (".pyc", ".pyo", ".o", ".so", ".lock", ".log", ".pid", ".sqlite", ".db")


def kept_answers(archive: Path, state: str, output: OutputSpec, workdir: str, reward: float) -> list[AcceptedAnswer]:
    """The answers in an end state that was kept, the output first; none where the archive cannot be read."""
    try:
        found = dict(_small_files(archive, output.path, workdir))
    except (OSError, EOFError, tarfile.TarError, zstandard.ZstdError):
        return []
    others = sorted((path for path in found if path != output.path), key=lambda path: (path.count("/"), path))
    chosen = [*([output.path] if output.path in found else []), *others[:_MOST_OTHERS]]
    return [AcceptedAnswer(state, path, found[path], _format(path, output), reward) for path in chosen if path]


def golden_answers(golden: GoldenAnswer, output: OutputSpec, reward: float) -> list[AcceptedAnswer]:
    """The output in a golden answer."""
    if output.path is None:
        return []
    file = golden.source
    if golden.target != output.path:
        within = posixpath.relpath(output.path, golden.target)
        file = golden.source / within
    try:
        if within_link(golden.source, file) or file.stat().st_size > _MOST_BYTES:
            return []
        content = read_file(file, _MOST_BYTES)[0]
    except (OSError, ValueError):
        return []
    return [AcceptedAnswer(golden.name, output.path, content, _format(output.path, output), reward)]


def within_link(root: Path, file: Path) -> bool:
    """Whether a file is no plain file of a folder, or lies behind a link."""
    return not file.is_file() or not file.resolve().is_relative_to(root.resolve()) or file.is_symlink()


def _small_files(archive: Path, output: str | None, workdir: str) -> Iterator[tuple[str, bytes]]:
    with zstandard.open(archive, "rb") as packed, tarfile.open(fileobj=packed, mode="r|") as tar:
        for number, member in enumerate(tar):
            if number >= _MOST_MEMBERS:
                return
            path = posixpath.normpath(f"/{member.name}")
            most = _MOST_BYTES if path == output else _MOST_OTHER_BYTES
            if not member.isreg() or member.size > most or not (path == output or _is_work(path, workdir)):
                continue
            content = tar.extractfile(member)
            if content is not None:
                yield path, content.read()


def _is_work(path: str, workdir: str) -> bool:
    """Whether somebody may have written a file as work: neither hidden, nor left by a program beside it."""
    if not path.startswith(f"{workdir.rstrip('/')}/"):
        return False
    parts = posixpath.relpath(path, workdir).split("/")
    return not any(part.startswith((".", "__")) for part in parts) and not path.endswith(_BY_PROGRAMS)


def _format(path: str, output: OutputSpec) -> OutputFormat | None:
    return output.format if path == output.path else format_of(path)
