"""What steps of builds have come to, by what they did: which layer a step made, and what it said.

builds/KEY.json     the layer of a step, if it made one; the key is made of everything the step depends on
builds/KEY.log      what the step's command wrote
builds/IMAGE.log    what all steps of an image wrote
"""

import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from seatrial.images.store import Store
from seatrial.images.stored import StoredLayer
from seatrial.model.base import StrictModel, to_json

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
            self._write(key, BuildStepRecord(layer=layer.digest if layer else None))
            return Outcome(layer, cached=False)

    def _find(self, key: str) -> Outcome | None:
        try:
            record = BuildStepRecord.model_validate_json((self._folder / f"{key}.json").read_bytes())
        except (FileNotFoundError, ValidationError):
            return None
        if record.layer is None:
            return Outcome(None, cached=True)
        layer = self._store.layer(record.layer)
        return Outcome(layer, cached=True) if layer else None

    def _write(self, key: str, record: BuildStepRecord) -> None:
        draft = self._store.session.new_folder() / "record.json"
        draft.write_bytes(to_json(record))
        draft.rename(self._folder / f"{key}.json")
        draft.parent.rmdir()

    def forget_lost(self) -> int:
        """Remove what is known of steps whose layers have been pruned; returns of how many."""
        count = 0
        for path in self._folder.glob("*.json"):
            if self._find(path.stem) is None:
                path.unlink(missing_ok=True)
                self.log_of(path.stem).unlink(missing_ok=True)
                count += 1
        return count
