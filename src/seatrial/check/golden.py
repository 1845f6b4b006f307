"""Which golden answers a task ships, and where in the sandbox each of them belongs.

`golden/pass` and `golden/fail` hold a tree for `/`, several such trees by name, or the output alone; a `start.sh` at
the top of a tree is run, for answers that are services. `tests/fixtures/golden_pass*` and `golden_fail*` are the output
itself, or folders as above. What is not understood is not used, and said: it would only raise a false alarm.
"""

import posixpath
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import zstandard

from seatrial.check.cases import AcceptedAnswer
from seatrial.model.loaded_task import Task
from seatrial.model.output import OutputFormat, OutputSpec, format_of
from seatrial.tasks.layout import read_file

PASS, FAIL = "golden/pass", "golden/fail"
"""What names of end states begin with."""

LEAST_PASS = 0.95
"""The least reward of an answer that is to pass."""


def least_accepted(task: Task, pass_threshold: float) -> float:
    """The reward from which a task's own solution counts as accepted: what its author says, or else nearly a pass."""
    said = task.config.check.oracle_reward
    return min(LEAST_PASS, pass_threshold) if said is None else said


START_SCRIPT = "start.sh"
_FIXTURES = "tests/fixtures"
_MOST = 20


@dataclass(frozen=True, slots=True)
class GoldenAnswer:
    """An answer that lies in `source`, a folder or a file, and belongs at `target` in the sandbox.

    One that is `started` has a script to be run there before it is judged.
    """

    name: str
    source: Path
    target: str
    started: bool = False


@dataclass(frozen=True, slots=True)
class GoldenAnswers:
    """The golden answers of a task, and what was not used, each with the reason."""

    answers: tuple[GoldenAnswer, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Whereabouts:
    """Where a task's answers lie in the sandbox."""

    workdir: str
    output: str | None


def find_golden(root: Path, workdir: str, output: str | None) -> GoldenAnswers:
    """The golden answers below a task's folder, in a fixed order."""
    where = _Whereabouts(workdir, output)
    answers: list[GoldenAnswer] = []
    remarks: list[str] = []
    for found in (*_in_folders(root, where), *_in_fixtures(root, where)):
        if isinstance(found, str):
            remarks.append(found)
        elif len(answers) < _MOST:
            answers.append(found)
        else:
            remarks.append(f"{found.name}: only the first {_MOST} golden answers are used")
    return GoldenAnswers(tuple(answers), tuple(remarks))


def _in_folders(root: Path, where: _Whereabouts) -> Iterator[GoldenAnswer | str]:
    for name in (PASS, FAIL):
        folder = root / name
        if _is_folder(folder):
            yield from _trees(name, folder, where)


def _trees(name: str, folder: Path, where: _Whereabouts) -> list[GoldenAnswer | str]:
    """The one tree that a folder is, or those that it holds."""
    if answer := _tree(name, folder, where):
        return [answer]
    inner = [each for each in sorted(folder.iterdir()) if _is_folder(each)]
    found = [answer for each in inner if (answer := _tree(f"{name}/{each.name}", each, where))]
    unused = [each.name for each in inner if not any(answer.source == each for answer in found)]
    if not found:
        return [f"{name} is not used: there is no {_expected(where)} in it"]
    return [*found, *(f"{name}/{each} is not used: there is no {_expected(where)} in it" for each in unused)]


def _tree(name: str, folder: Path, where: _Whereabouts) -> GoldenAnswer | None:
    """A folder as an answer: as a tree for `/` if it looks like one, or as the folder of the output."""
    started = (folder / START_SCRIPT).is_file()
    output = where.output
    if output and (folder / output.lstrip("/")).exists():
        return GoldenAnswer(name, folder, "/", started)
    if _is_folder(folder / where.workdir.strip("/").partition("/")[0]):
        return GoldenAnswer(name, folder, "/", started)
    if output and (folder / posixpath.basename(output)).exists():
        return GoldenAnswer(name, folder, posixpath.dirname(output))
    return None


def _in_fixtures(root: Path, where: _Whereabouts) -> Iterator[GoldenAnswer | str]:
    folder = root / _FIXTURES
    for path in sorted(folder.glob("golden_*")) if _is_folder(folder) else ():
        kind = next((each for each in (PASS, FAIL) if path.name.startswith(each.replace("/", "_"))), None)
        if kind is None or path.is_symlink():
            continue
        rest = path.stem.removeprefix(kind.replace("/", "_")).strip("_-.")
        name = "/".join(filter(None, (kind, "fixture", rest)))
        if path.is_dir():
            yield from _trees(name, path, where)
        elif where.output is None:
            yield f"{_FIXTURES}/{path.name} is not used: nobody knows which file of the sandbox it stands for"
        elif path.suffix != posixpath.splitext(where.output)[1]:
            yield f"{_FIXTURES}/{path.name} is not used: the output is {where.output}, which has another suffix"
        else:
            yield GoldenAnswer(name, path, where.output)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _expected(where: _Whereabouts) -> str:
    top = f"{where.workdir.strip('/').partition('/')[0]}/"
    return f"{where.output.lstrip('/')} and no {top}" if where.output else top


# Answers in an end state that was accepted: the output of the task, and other small files. Archives and folders may be
# strangers', so only plain files are taken.

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
