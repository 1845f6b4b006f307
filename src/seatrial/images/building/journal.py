"""Which steps a build has done and how, told to its observer and kept as the log of the image."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from seatrial.images.building.events import How, Observer, StepBegan, StepEnded
from seatrial.images.building.step_cache import StepCache
from seatrial.images.store import Store


@dataclass(slots=True)
class Entry:
    """A step: what it says, how it was done, and the key by which its output is known if it may have any."""

    text: str
    how: How = "noted"
    key: str | None = None


class BuildJournal:
    """The steps of one build, `total` of them."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._entries: list[Entry] = []
        self.total = 0

    @property
    def steps(self) -> int:
        """How many steps are done."""
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
