"""One stage of a build as it stands: what it begins on, its layers, its configuration, and what words mean in it.

`Bases` begins stages, on an image that is found for us, on nothing, or on this machine's own system. `steps.py`
carries out the instructions that make layers.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from seatrial.errors import HostUnsupportedError, UsageError
from seatrial.images.building.instructions import Assign, Healthcheck, OnBuild, Setting, Start
from seatrial.images.building.plan import ConfigDraft
from seatrial.images.building.step_cache import make_key
from seatrial.images.building.trees import LayerView
from seatrial.images.config import ImageDocument, Platform, Settings
from seatrial.images.store import Store, StoredImage, StoredLayer, paths_of
from seatrial.sandbox.api import Image, ImageConfig
from seatrial.tasks.build_context import Origin
from seatrial.tasks.dockerfile import WordError, expand

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
        return paths_of(self.layers)

    @property
    def image(self) -> Image:
        """What to make a sandbox from; commands get their environment from us."""
        return Image("build", self.paths, self.base)

    @property
    def view(self) -> LayerView:
        return LayerView(self.paths, self.base)

    @property
    def digests(self) -> list[str]:
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
    return replace(stage, draft=draft, layers=list(stage.layers), args=dict(stage.args))


# Bases: the images that stages begin on, and that COPY takes files from.

ResolveBase = Callable[[str, Platform], Awaitable[StoredImage | Image]]
"""Finds the image of a FROM: one in the store, or `HOST_IMAGE` (also with layers of the store on top) to build on."""

_HOST_SIGNS = (Path("/usr/bin"), Path("/usr/lib"), Path("/var/lib/dpkg/status"), Path("/etc/os-release"))


@dataclass(frozen=True, slots=True)
class Bases:
    """Where images come from in one build."""

    store: Store
    resolve_base: ResolveBase
    escape: str

    async def begin(self, name: str, platform: Platform) -> Stage:
        """A new stage on an image. Raises WordError, and what finding it raises."""
        if name == "scratch":
            return self._new_stage(ImageDocument(), platform, make_key("scratch"))
        found = await self._resolve(name, platform)
        if isinstance(found, Image):
            return self._on_image(found, platform)
        stage = self._new_stage(found.document, platform, make_key("base", *found.layers))
        stage.layers += [self._layer(digest) for digest in found.layers]
        return stage

    def _on_image(self, image: Image, platform: Platform) -> Stage:
        digests = [f"sha256:{path.parent.name}" for path in image.layers]
        below = host_key() if image.base == "host" else "empty"
        stage = self._new_stage(_document_of(image.config), platform, make_key("image", below, *digests))
        stage.layers += [self._layer(digest) for digest in digests]
        return replace(stage, base=image.base)

    async def origin(self, name: str, platform: Platform) -> Origin:
        """An image to copy files from. Raises like `begin`."""
        stage = await self.begin(name, platform)
        return Origin(stage.view, stage.key)

    def _new_stage(self, document: ImageDocument, platform: Platform, key: str) -> Stage:
        return Stage(ConfigDraft(document, platform), "empty", key, self.escape)

    async def _resolve(self, name: str, platform: Platform) -> StoredImage | Image:
        try:
            found = await self.resolve_base(name, platform)
        except HostUnsupportedError:
            raise
        except UsageError as error:
            raise WordError(str(error)) from error
        if isinstance(found, Image) and not all(path.is_relative_to(self.store.root) for path in found.layers):
            raise WordError(f"{name} is an image that is not in the store; load or pull it first")
        return found

    def _layer(self, digest: str) -> StoredLayer:
        layer = self.store.layer(digest)
        if layer is None:
            raise WordError(f"layer {digest} of the base image is not in the store any more; pull it again")
        return layer


def _document_of(config: ImageConfig) -> ImageDocument:
    """The configuration of an image as far as a sandbox knows it."""
    settings = Settings(
        env=tuple(f"{name}={value}" for name, value in config.env.items()),
        working_dir=config.workdir,
        user=config.user,
        entrypoint=config.entrypoint,
        command=config.command,
    )
    return ImageDocument(config=settings)


def host_key() -> str:
    """What tells that this machine's own system has changed."""
    return make_key("host", *(sign.stat().st_mtime_ns for sign in _HOST_SIGNS if sign.exists()))
