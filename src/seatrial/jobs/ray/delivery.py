"""What a trial needs on its node, and on which node it gets a seat.

Files of the coordinator are known by their digests; specs and settings are rewritten to where those are on the node.
Sending them is in `remote_node.py`.
"""

import asyncio
import os
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from seatrial.agents.files import list_agent_files
from seatrial.errors import JobError
from seatrial.jobs.ray.archives import pack_files
from seatrial.jobs.ray.wire import PIECE_BYTES, FileNeed, RunnerSettings, digest_of
from seatrial.model.job import AgentFiles, ModelOptions, TrialOptions
from seatrial.tasks.layout import ignored_below, list_files
from seatrial.trial.spec import TrialSpec

# Files.

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
    if need.kind != "task":
        brought = list_agent_files(root)
        return [*(brought.regular | brought.links)]
    files = list_files(root)
    ignored = ignored_below(root, files.regular)
    return [name for name in files.regular | files.links if not ignored(name)]


def portable(trial: TrialOptions, model: ModelOptions) -> tuple[TrialOptions, ModelOptions]:
    """The options with absolute paths of files, which mean the same wherever they are read."""
    changed: dict[str, str] = {}
    if model.upstream:
        changed["upstream"] = _rewritten(model.upstream, _absolute, _absolute)
    if model.prices:
        changed["prices"] = _absolute(model.prices)
    of_trial = {"ca_file": _absolute(trial.ca_file)} if trial.ca_file else {}
    if trial.verifier_upstream:
        of_trial["verifier_upstream"] = _rewritten(trial.verifier_upstream, _absolute, _absolute)
    return trial.model_copy(update=of_trial), model.model_copy(update=changed)


def settings_files(trial: TrialOptions, model: ModelOptions) -> tuple[FileNeed, ...]:
    """The files that portable options name: scripted or recorded answers, prices, certificates. Raises JobError."""
    upstreams = map(upstream_file, (model.upstream, trial.verifier_upstream))
    return tuple(_file_need(each) for each in dict.fromkeys((*upstreams, model.prices, trial.ca_file)) if each)


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
    of_trial: dict[str, str | None] = {"ca_file": moved.get(trial.ca_file or "")}
    if trial.verifier_upstream:
        of_trial["verifier_upstream"] = _rewritten(trial.verifier_upstream, moved.__getitem__)
    return settings.model_copy(
        update={
            "trial": trial.model_copy(update=of_trial),
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


# Seats: the next trial gets the fit node with the most free seats that has the memory, in order of arrival.

NO_NODES: frozenset[str] = frozenset()


@dataclass(eq=False, slots=True)
class _Node:
    name: str
    free: int
    memory_mb: int
    free_mb: int
    resting: bool = False

    def has_room(self, need_mb: int) -> bool:
        return not self.resting and self.free > 0 and min(need_mb, self.memory_mb) <= self.free_mb


@dataclass(eq=False, slots=True)
class Seat:
    """A place for one trial on a node; to be given back to whoever gave it."""

    node: str
    memory_mb: int
    place: _Node


@dataclass(eq=False, slots=True)
class _Waiter:
    need_mb: int
    avoid: frozenset[str]
    turn: "asyncio.Future[Seat]"
    seat: Seat | None = None


class Seats:
    """The seats of all nodes that can run trials. Nobody overtakes: one that needs much gets its turn.

    A trial that needs more memory than any node has runs alone on the largest.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {}
        # In order of arrival. Tens of thousands may wait, and give up at once; the first of a plain dict that has lost
        # many is found only by going past where they were.
        self._waiting: OrderedDict[_Waiter, None] = OrderedDict()

    def add(self, name: str, slots: int, memory_mb: int) -> None:
        self._nodes[name] = _Node(name, slots, memory_mb, memory_mb)
        self._let_in()

    def remove(self, name: str) -> None:
        """A node has gone; one that was to be avoided may be the only one now."""
        self._nodes.pop(name, None)
        self._let_in()

    def rest(self, name: str) -> None:
        """Give no seats of a node for now."""
        if node := self._nodes.get(name):
            node.resting = True

    def wake(self, name: str) -> None:
        """Give seats of a node again."""
        if node := self._nodes.get(name):
            node.resting = False
            self._let_in()

    async def take(self, need_mb: int, avoid: frozenset[str] = NO_NODES) -> Seat:
        """A seat on a node, on one to `avoid` only when there is no other node; waits until there is one."""
        while True:
            seat = await self._take(need_mb, avoid)
            if self._nodes.get(seat.node) is seat.place:  # it may have gone since the seat was given
                return seat

    async def _take(self, need_mb: int, avoid: frozenset[str]) -> Seat:
        waiter = _Waiter(need_mb, avoid, asyncio.get_running_loop().create_future())
        self._waiting[waiter] = None
        if len(self._waiting) == 1:  # the others wait for what the first of them needs
            self._let_in()
        try:
            return await waiter.turn
        except asyncio.CancelledError:
            if waiter.seat:
                self.give_back(waiter.seat)  # let in and cancelled at the same moment
            elif self._first() is waiter:
                self._let_in()
            else:
                self._waiting.pop(waiter, None)
            raise

    def give_back(self, seat: Seat) -> None:
        """A seat is free again."""
        seat.place.free += 1
        seat.place.free_mb += seat.memory_mb
        self._let_in()

    def fail(self, error: Exception) -> None:
        """Let nobody wait any longer."""
        waiting, self._waiting = self._waiting, OrderedDict()
        for waiter in waiting:
            if not waiter.turn.done():
                waiter.turn.set_exception(error)

    def _first(self) -> _Waiter | None:
        return next(iter(self._waiting), None)

    def _let_in(self) -> None:
        while waiter := self._first():
            if not waiter.turn.done():  # cancelled, but it has not had its turn to go
                if (node := self._choose(waiter)) is None:
                    return
                need = min(waiter.need_mb, node.memory_mb)
                node.free -= 1
                node.free_mb -= need
                waiter.seat = Seat(node.name, need, node)
                waiter.turn.set_result(waiter.seat)
            del self._waiting[waiter]

    def _choose(self, waiter: _Waiter) -> _Node | None:
        nodes: Collection[_Node] = self._nodes.values()
        if waiter.avoid:
            nodes = [node for node in nodes if node.name not in waiter.avoid] or nodes
        least = min(waiter.need_mb, max((node.memory_mb for node in nodes), default=0)) if waiter.need_mb else 0
        best = None
        for node in nodes:  # of each trial that ends, over all nodes
            if node.free > (best.free if best else 0) and node.memory_mb >= least and node.has_room(waiter.need_mb):
                best = node
        return best
