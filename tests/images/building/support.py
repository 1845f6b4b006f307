"""What the tests of builds share: a busybox base in a store, a context from a few lines, and a look at the result."""

import asyncio
import io
import stat
import tarfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from seatrial.errors import ImageError
from seatrial.images.build import BuildMeans, BuildSpec, Built, build_image
from seatrial.images.building.step_cache import BuildEvent, StepEnded, StepOutput
from seatrial.images.building.trees import LayerView
from seatrial.images.config import ImageDocument, Layers, Platform, host_platform
from seatrial.images.store import Store, StoredImage, open_store
from seatrial.sandbox.api import HOST_IMAGE, NO_NETWORK, Image, SandboxSpec
from seatrial.sandbox.embedded.backend import EmbeddedBackend
from seatrial.tasks.build_context import walk
from tests.docker_daemon import busybox_archive, why_no
from tests.images.support import add, needs_root

REAL_BUILDS = [
    needs_root,
    pytest.mark.skipif("busybox" in (why_no("docker") or ""), reason="no busybox: install busybox-static"),
]

TIMEOUT_SEC = 100.0
BASE = "base:1"
PASSWD = b"root:x:0:0:root:/root:/bin/sh\nalice:x:1000:1001:Alice:/home/alice:/bin/sh\n"
GROUP = b"root:x:0:\nstaff:x:50:alice\nalice:x:1001:\n"

T = TypeVar("T")


class CountingBackend(EmbeddedBackend):
    """The real thing, which remembers how many sandboxes it has made."""

    def __init__(self) -> None:
        super().__init__()
        self.made = 0

    async def create(self, spec: SandboxSpec) -> Any:
        self.made += 1
        return await super().create(spec)


@dataclass
class Builder:
    """A store with a base image in it, and a backend that starts when it is first needed."""

    store: Store
    events: list[BuildEvent] = field(default_factory=list)
    backends: list[CountingBackend] = field(default_factory=list)
    heard: asyncio.Event = field(default_factory=asyncio.Event)

    def observe(self, event: BuildEvent) -> None:
        self.events.append(event)
        if isinstance(event, StepOutput):
            self.heard.set()

    @property
    def sandboxes(self) -> int:
        return sum(backend.made for backend in self.backends)

    @property
    def output(self) -> str:
        return b"".join(event.data for event in self.events if isinstance(event, StepOutput)).decode()

    @property
    def ways(self) -> list[str]:
        return [event.how for event in self.events if isinstance(event, StepEnded)]

    @asynccontextmanager
    async def open_backend(self) -> AsyncIterator[CountingBackend]:
        async with CountingBackend() as backend:
            self.backends.append(backend)
            yield backend

    async def resolve(self, name: str, platform: Platform) -> StoredImage | Image:
        if name == "host":
            return HOST_IMAGE
        found = self.store.find(name, platform)
        if found is None:
            raise ImageError(f"{name} is nowhere to be had")
        return found

    @property
    def means(self) -> BuildMeans:
        return BuildMeans(self.store, self.resolve, self.open_backend, self.observe)

    async def build(self, context: Path, **options: Any) -> Built:
        self.events.clear()
        return await build_image(replace(BuildSpec(context, network=NO_NETWORK), **options), self.means)


@pytest.fixture(scope="session")
def store_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One store for all tests of a worker: what one has built, another finds; commands differ where that matters."""
    return tmp_path_factory.mktemp("store")


def with_builder(root: Path, work: Callable[[Builder], Awaitable[T]]) -> T:
    """Do something with a builder whose store has the base image."""

    async def play() -> T:
        async with asyncio.timeout(TIMEOUT_SEC), open_store(root) as store:
            if store.find(BASE) is None:
                await _add_base(store)
            return await work(Builder(store))

    return asyncio.run(play())


def base_archive() -> bytes:
    """A root with busybox and two users."""
    buffer = io.BytesIO(busybox_archive())
    with tarfile.open(fileobj=buffer, mode="a") as tar:
        for name, content in (("etc/passwd", PASSWD), ("etc/group", GROUP)):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


async def _add_base(store: Store) -> None:
    layer = await add(store, base_archive())
    here = host_platform()
    store.put_image(ImageDocument(architecture=here.architecture, rootfs=Layers(diff_ids=(layer.digest,))), BASE)


def write_context(folder: Path, dockerfile: str, files: Mapping[str, str] | None = None) -> Path:
    """A folder with a Dockerfile and some more files."""
    for name, text in {"Dockerfile": dockerfile, **(files or {})}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def look_at(image: Image, top: str = "/") -> dict[str, tuple[str, str, str]]:
    """Everything in an image, without what lies in its base: mode, owner, and content or target."""
    found = {}
    for relative, what in walk(LayerView(image.layers, image.base), top):
        status = what.status
        content = (
            str(what.place.readlink()) if what.is_link else what.place.read_text("latin-1") if what.is_file else ""
        )
        found[f"{top.rstrip('/')}/{relative}"] = (
            stat.filemode(status.st_mode),
            f"{status.st_uid}:{status.st_gid}",
            content,
        )
    return found


@pytest.fixture
def context(tmp_path: Path) -> Path:
    return tmp_path / "context"


def build(
    root: Path, context: Path, dockerfile: str, files: dict[str, str] | None = None, **options: Any
) -> tuple[Any, "Builder"]:
    """Build once; returns what came of it and the builder."""
    write_context(context, dockerfile, files)

    async def scene(builder: Builder) -> tuple[Any, Builder]:
        return await builder.build(context, **options), builder

    return with_builder(root, scene)
