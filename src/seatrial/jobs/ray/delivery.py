"""Which files of the coordinator a trial needs on its node, how they are sent, and the spec as it reads there."""

import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO

from seatrial.agents.files import LEFT_OUT, MOST
from seatrial.errors import JobError
from seatrial.jobs.ray.archives import pack_files
from seatrial.jobs.ray.wire import PIECE_BYTES, FileNeed, RunnerSettings, digest_of
from seatrial.model.job import AgentFiles, ModelOptions, TrialOptions
from seatrial.tasks.ignore import ignored_below
from seatrial.tasks.layout import IGNORED_FOLDERS, TASK_BOUNDS, list_files
from seatrial.trial.spec import TrialSpec

_FROM_FILES = ("scripted", "replay")
_CACHE = "cache"

Rename = Callable[[str], str]


def needs_of(spec: TrialSpec) -> list[FileNeed]:
    """The files that a trial needs: its task, and what its agent brings along."""
    task = FileNeed(kind="task", digest=spec.task_digest, path=str(spec.task.root))
    return [task, *(_agent_need(each) for each in spec.agent.files if each.digest)]


def _agent_need(files: AgentFiles) -> FileNeed:
    assert files.digest  # noqa: S101 - asked before
    source = Path(files.source)
    return FileNeed(
        kind="agent", digest=files.digest, path=files.source, name=source.name if source.is_file() else None
    )


def relocated(spec: TrialSpec, places: Mapping[str, Path]) -> TrialSpec:
    """The spec with the places where its files lie on a node, given by digest."""
    files = tuple(_moved(each, places) for each in spec.agent.files)
    return replace(
        spec,
        task=spec.task.model_copy(update={"root": places[spec.task_digest]}),
        agent=spec.agent.model_copy(update={"files": files}) if files else spec.agent,
    )


def _moved(files: AgentFiles, places: Mapping[str, Path]) -> AgentFiles:
    return files.model_copy(update={"source": str(places[files.digest])}) if files.digest else files


def pack_need(need: FileNeed) -> IO[bytes]:
    """An archive of what is needed, to read from its beginning and to close. Raises OSError and UsageError."""
    archive: IO[bytes] = tempfile.SpooledTemporaryFile(PIECE_BYTES, prefix="seatrial-")  # noqa: SIM115
    try:
        if need.name is not None:
            pack_files(Path(need.path).parent, [need.name], archive)
        else:
            pack_files(Path(need.path), _listed(need), archive)
    except BaseException:
        archive.close()
        raise
    archive.seek(0)
    return archive


def _listed(need: FileNeed) -> list[str]:
    """The files of a folder that count in its digest."""
    root = Path(need.path)
    bounds, left_out = (TASK_BOUNDS, IGNORED_FOLDERS) if need.kind == "task" else (MOST, LEFT_OUT)
    files = list_files(root, bounds, left_out)
    ignored = ignored_below(root, files.regular)
    return [name for name in files.regular | files.links if not ignored(name)]


def portable(trial: TrialOptions, model: ModelOptions) -> tuple[TrialOptions, ModelOptions]:
    """The options with absolute paths of files, which mean the same wherever they are read."""
    changed: dict[str, str] = {}
    if model.upstream:
        changed["upstream"] = _rewritten(model.upstream, _absolute, _absolute)
    if model.prices:
        changed["prices"] = _absolute(model.prices)
    certificates = {"ca_file": _absolute(trial.ca_file)} if trial.ca_file else {}
    return trial.model_copy(update=certificates), model.model_copy(update=changed)


def settings_files(trial: TrialOptions, model: ModelOptions) -> tuple[FileNeed, ...]:
    """The files that portable options name: scripted or recorded answers, prices, certificates. Raises JobError."""
    return tuple(map(_file_need, filter(None, (upstream_file(model.upstream), model.prices, trial.ca_file))))


def _file_need(path: str) -> FileNeed:
    try:
        digest = digest_of(Path(path).read_bytes())
    except OSError as error:
        raise JobError(f"{path}: cannot be read, and nodes need it: {error.strerror}") from error
    return FileNeed(kind="file", digest=digest, path=path, name=Path(path).name)


def settled(settings: RunnerSettings, places: Mapping[str, Path]) -> RunnerSettings:
    """The settings with the places where the files that they name lie on a node, given by digest."""
    moved = {need.path: str(places[need.digest]) for need in settings.files}
    trial, model = settings.trial, settings.model
    changed: dict[str, str | None] = {"prices": moved.get(model.prices or "")}
    if model.upstream:
        changed["upstream"] = _rewritten(model.upstream, moved.__getitem__)
    return settings.model_copy(
        update={
            "trial": trial.model_copy(update={"ca_file": moved.get(trial.ca_file or "")}),
            "model": model.model_copy(update=changed),
        }
    )


def upstream_file(upstream: str | None) -> str | None:
    """The file that an upstream takes its answers from, if it is of that kind; also behind a cache."""
    kind, _, rest = (upstream or "").strip().partition(":")
    if kind == _CACHE:
        return upstream_file(rest.partition(",")[2])
    return rest if kind in _FROM_FILES else None


def _rewritten(upstream: str, file: Rename, folder: Rename = str) -> str:
    """An upstream with other names for the file of its answers and for the folder of a cache, if it has them."""
    kind, _, rest = upstream.strip().partition(":")
    if kind == _CACHE:
        kept, _, inner = rest.partition(",")
        return f"{kind}:{folder(kept)},{_rewritten(inner, file, folder)}"
    return f"{kind}:{file(rest)}" if kind in _FROM_FILES else upstream


def _absolute(name: str) -> str:
    return os.path.abspath(Path(name).expanduser())  # noqa: PTH100 - links stay as they were named
