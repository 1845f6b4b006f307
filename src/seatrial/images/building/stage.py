"""One stage of a build as it stands: its layers, its configuration, its arguments, and what they make of words."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from seatrial.images.building.draft import ConfigDraft
from seatrial.images.building.instructions import Assign, Healthcheck, OnBuild, Setting, Start
from seatrial.images.building.layer_view import LayerView
from seatrial.images.building.step_cache import make_key
from seatrial.images.building.words import expand
from seatrial.images.stored import StoredLayer
from seatrial.sandbox.api import Image

Noted = Assign | Start | Setting | Healthcheck | OnBuild
"""Instructions that change nothing but the configuration, WORKDIR excepted."""


@dataclass(slots=True)
class Stage:
    """A stage being built. `key` stands for everything that its files depend on."""

    draft: ConfigDraft
    base: Literal["empty", "host"]
    key: str
    escape: str
    layers: list[StoredLayer] = field(default_factory=list)
    args: dict[str, str] = field(default_factory=dict)

    @property
    def variables(self) -> dict[str, str]:
        """What variables stand for: what ENV says wins over ARG."""
        return {**self.args, **self.draft.env}

    @property
    def paths(self) -> tuple[Path, ...]:
        """The directories of the layers, lowest first."""
        paths: list[Path] = []
        for layer in self.layers:
            paths = [layer.path] if layer.about.hides_below else [*paths, layer.path]
        return tuple(paths)

    @property
    def image(self) -> Image:
        """What to make a sandbox from; commands get their environment from us."""
        return Image("build", self.paths, self.base)

    @property
    def view(self) -> LayerView:
        """The files as they are now."""
        return LayerView(self.paths, self.base)

    @property
    def digests(self) -> list[str]:
        """The digests of the layers, lowest first."""
        return [layer.digest for layer in self.layers]

    def expand(self, word: str) -> str:
        """A word with its variables replaced. Raises WordError."""
        return expand(word, self.variables, escape=self.escape)

    def add(self, key: str, layer: StoredLayer | None) -> None:
        """A step has been done."""
        self.key = key
        if layer is not None:
            self.layers.append(layer)

    def note(self, what: Noted) -> None:
        """Carry out an instruction that is about the configuration alone. Raises WordError."""
        if isinstance(what, Assign):
            self._assign(what)
        elif isinstance(what, Setting):
            self._set(what)
        elif isinstance(what, Start):
            self.draft.start(what.kind, what.command)
        elif isinstance(what, Healthcheck):
            self.draft.check_health(what)
        else:
            self.draft.trigger(what.text)

    def _assign(self, what: Assign) -> None:
        # All by what was known before: `ENV A=1 B=$A` does not see its own A.
        pairs = [(self.expand(name), self.expand(value)) for name, value in what.pairs]
        for name, value in pairs:
            if what.kind == "ENV":
                self.draft.env[name] = value
            else:
                self.draft.label(name, value)

    def _set(self, what: Setting) -> None:
        words = [self.expand(word) for word in what.words]
        if what.kind == "EXPOSE":
            self.draft.expose([part for word in words for part in word.split()])
        elif what.kind == "VOLUME":
            self.draft.add_volumes(words)
        elif what.kind == "WORKDIR":
            self.draft.set_workdir(words[0])
        else:
            self.draft.set_word(what.kind, what.words[0] if what.kind == "MAINTAINER" else words[0])

    def next_key(self, *parts: object) -> str:
        """The key of a step that depends on these and on all before it."""
        return make_key(self.key, *parts)


def continue_stage(stage: Stage, draft: ConfigDraft) -> Stage:
    """A new stage on top of one that is finished."""
    return replace(stage, draft=draft, layers=list(stage.layers), args=dict(stage.args))
