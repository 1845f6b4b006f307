"""What steps of builds have made, by a key of all they depend on; what a build reports, and the logs that are kept.

builds/KEY.json     the layer of a step, if it made one
builds/KEY.log      what the step's command wrote
builds/IMAGE.log    what all steps of an image wrote
"""

import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias

from seatrial.images.store import Store, StoredLayer, read_stored
from seatrial.model.base import StrictModel, to_json
from seatrial.model.events import Observer

_VERSION = 1


class BuildStepRecord(StrictModel):
    """What a step made: a layer, or nothing at all."""

    layer: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a step was done: the layer it made, and whether that was there before."""

    layer: StoredLayer | None
    cached: bool


def make_key(*parts: object) -> str:
    """A key of everything a step depends on; parts are what JSON can say."""
    text = json.dumps([_VERSION, *parts], sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


class StepCache:
    """The steps that a store knows of."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._folder = store.root / "builds"
        self._folder.mkdir(exist_ok=True)

    def log_of(self, key: str) -> Path:
        """Where the output of a step or an image is."""
        return self._folder / f"{key}.log"

    async def layer(self, key: str, make: Callable[[], Awaitable[StoredLayer | None]]) -> Outcome:
        """The layer of a step, made only if nobody has made it before; whoever comes meanwhile waits for it."""
        if found := self._find(key):
            return found
        async with self._store.working_on(f"build-{key}"):
            if found := self._find(key):
                return found
            layer = await make()
            record = BuildStepRecord(layer=layer.digest if layer else None)
            self._store.write(self._folder / f"{key}.json", to_json(record))
            return Outcome(layer, cached=False)

    def _find(self, key: str) -> Outcome | None:
        record = read_stored(BuildStepRecord, self._folder / f"{key}.json")
        if record is None:
            return None
        if record.layer is None:
            return Outcome(None, cached=True)
        layer = self._store.layer(record.layer)
        return Outcome(layer, cached=True) if layer else None

    def forget_lost(self) -> int:
        """Remove what is known of steps whose layers have been pruned; returns of how many."""
        count = 0
        for path in self._folder.glob("*.json"):
            if self._find(path.stem) is None:
                path.unlink(missing_ok=True)
                self.log_of(path.stem).unlink(missing_ok=True)
                count += 1
        return count


# Events of a build, and the log of a step.

How = Literal["built", "cached", "noted"]
"""How a step was done: its layer was made, or was there before, or it needed none."""

_TAIL_BYTES = 4000


@dataclass(frozen=True, slots=True)
class StepBegan:
    """A step begins: which one of how many, and what it says on one line."""

    number: int
    total: int
    text: str


@dataclass(frozen=True, slots=True)
class StepOutput:
    """A step's command wrote something."""

    data: bytes


@dataclass(frozen=True, slots=True)
class StepEnded:
    """A step is done."""

    number: int
    how: How
    seconds: float


BuildEvent: TypeAlias = StepBegan | StepOutput | StepEnded


class StepLog:
    """What one step writes: kept in a file, its end in memory, and passed on as it comes."""

    def __init__(self, path: Path, observer: Observer[BuildEvent]) -> None:
        self.path = path
        self._file: BinaryIO = path.open("wb")
        self._observer = observer
        self._tail = b""

    def write(self, data: bytes) -> None:
        with suppress(OSError):  # a full disk: the command must go on
            self._file.write(data)
        self._tail = (self._tail + data)[-_TAIL_BYTES:]
        self._observer(StepOutput(data))

    @property
    def tail(self) -> str:
        """The end of it, from the beginning of a line."""
        text = self._tail
        if len(text) == _TAIL_BYTES:
            text = text.partition(b"\n")[2] or text
        return text.decode("utf-8", "replace").strip()

    def close(self) -> None:
        with suppress(OSError):
            self._file.close()


# The journal: which steps a build has done and how, for its observer and the log of the image.


@dataclass(slots=True)
class Entry:
    """A step: what it says, how it was done, and the key by which its output is known if it may have any."""

    text: str
    how: How = "noted"
    key: str | None = None


class BuildJournal:
    """The steps of one build, `total` of them."""

    def __init__(self, observer: Observer[BuildEvent]) -> None:
        self._observer = observer
        self._entries: list[Entry] = []
        self.total = 0

    @property
    def steps(self) -> int:
        return len(self._entries)

    @property
    def cached(self) -> int:
        """For how many of them nothing had to be made."""
        return sum(entry.how != "built" for entry in self._entries)

    @contextmanager
    def step(self, text: str) -> Iterator[Entry]:
        """One step; the block says in the entry how it was done. One that fails has not been done."""
        started, number = time.monotonic(), self.steps + 1
        self._observer(StepBegan(number, self.total, text))
        entry = Entry(text)
        yield entry
        self._entries.append(entry)
        self._observer(StepEnded(number, entry.how, time.monotonic() - started))

    def write_log(self, store: Store, cache: StepCache, name: str) -> Path:
        """Keep what all steps wrote, whenever they did. A build of nothing new has its log already."""
        path = cache.log_of(name)
        if path.exists() and self.cached == self.steps:
            return path
        draft = store.session.new_folder() / path.name
        with draft.open("wb") as log:
            for number, entry in enumerate(self._entries, 1):
                log.write(f"#{number} {entry.text}\n".encode("utf-8", "replace"))
                if entry.key is not None and (output := cache.log_of(entry.key)).exists():
                    log.write(output.read_bytes())
        draft.rename(path)
        draft.parent.rmdir()
        return path
