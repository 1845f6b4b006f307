"""One embedded backend for all trials of a module, and images made on the spot."""

from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from seatrial.images.archives import load_images
from seatrial.images.resolver import ImageResolver
from seatrial.images.sources import StoreSource
from seatrial.images.store import open_store
from tests.images.support import archive, entry, folder, link
from tests.trial.support import BUSYBOX, Desk, open_desk

TOOLS = (
    "sh",
    "cat",
    "echo",
    "grep",
    "id",
    "ls",
    "mkdir",
    "pwd",
    "chmod",
    "test",
    "[",
    "sleep",
    "rm",
    "kill",
    "ps",
    "env",
)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A desk that runs trials on the embedded sandbox."""
    with open_desk(tmp_path_factory.mktemp("desk")) as desk:
        yield desk


@pytest.fixture(scope="module")
def images(desk: Desk, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ImageResolver]:
    """The images of a store that has a small one."""
    place = tmp_path_factory.mktemp("images")
    content = Path(BUSYBOX or "").read_bytes()
    tools = [link(f"bin/{name}", "busybox") for name in TOOLS]
    passwd = entry("etc/passwd", content=b"root:x:0:0::/root:/bin/sh\nal:x:1000:1000::/:/bin/sh\n")
    base = [folder("bin"), entry("bin/busybox", content=content, mode=0o755), *tools, passwd, folder("opt")]
    (place / "small.tar").write_bytes(archive([*base, folder("tmp", mode=0o1777)]))
    stack = AsyncExitStack()

    async def open_images() -> ImageResolver:
        store = await stack.enter_async_context(open_store(place / "store"))
        await load_images(store, place / "small.tar", "test/small:1")
        return ImageResolver(StoreSource(store, desk.backend), lambda _: None)

    yield desk.wait(open_images())
    desk.wait(stack.aclose())
