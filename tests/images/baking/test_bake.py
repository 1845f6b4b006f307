"""Baking for real, in a sandbox on this machine's own system. Registries are asked only where that is wanted."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from seatrial.errors import BakeError
from seatrial.images.baking.bake import BakeMeans, baked_layer, find_baked
from seatrial.images.baking.layout import programs_of, settings_here
from seatrial.images.choice import Setup
from seatrial.images.sources import StoreSource
from seatrial.images.store import open_store
from seatrial.model.events import Notice
from seatrial.model.job import LayerRecipe
from seatrial.sandbox.api import HOST_IMAGE, ExecSpec, SandboxBackend, SandboxSpec, open_sandbox
from seatrial.sandbox.embedded.backend import EmbeddedBackend
from tests.cli.test_gc_command import why_no_sandbox

EMPTY = LayerRecipe(name="empty", version="1.0")
CODEX = LayerRecipe(name="codex", version="0.166.0", npm=("@openai/codex@0.166.0",), programs={"codex": "codex"})
T = TypeVar("T")


def unexpected(notice: Notice) -> None:
    pytest.fail(notice.text)


def with_means(root: Path, work: Callable[[BakeMeans, SandboxBackend], Awaitable[T]]) -> T:
    if reason := why_no_sandbox():
        pytest.skip(f"embedded sandbox: {reason}")

    async def play() -> T:
        async with open_store(root) as store, EmbeddedBackend() as backend:

            @asynccontextmanager
            async def opened() -> AsyncIterator[SandboxBackend]:
                yield backend

            return await work(BakeMeans(store, opened, settings=settings_here()), backend)

    return asyncio.run(play())


@pytest.mark.whole
def test_a_tree_is_baked_once_and_a_failure_is_told_with_its_last_words(tmp_path):
    said: list[Notice] = []

    async def work(means: BakeMeans, _: SandboxBackend) -> list[str]:
        lacking = EMPTY.model_copy(update={"name": "lacking", "programs": {"pi": "bin/pi"}})
        with pytest.raises(BakeError, match=r"(?s)lacking 1\.0 could not be baked.*no package of lacking 1\.0 has"):
            await baked_layer(means, lacking, said.append)
        assert find_baked(means.store, lacking) is None
        first = await baked_layer(means, EMPTY, said.append)
        assert await baked_layer(means, EMPTY, said.append) == first
        return sorted(str(path.relative_to(first.path)) for path in first.path.rglob("*"))

    *parents, last = with_means(tmp_path, work)
    assert f"/{last}" == programs_of(EMPTY)
    assert all(last.startswith(parent) for parent in parents)
    assert said == [Notice(f"baking {name} 1.0, once for this machine") for name in ("lacking", "empty")]


def test_a_machine_that_stays_alone_asks_no_registry(tmp_path, monkeypatch):
    monkeypatch.setenv("SEATRIAL_OFFLINE", "1")

    async def work(means: BakeMeans, _: SandboxBackend) -> None:
        with pytest.raises(BakeError, match=r"codex 0\.166\.0 .*SEATRIAL_OFFLINE.*seatrial agents load"):
            await baked_layer(means, CODEX, unexpected)

    with_means(tmp_path, work)


@pytest.mark.skipif(
    "SEATRIAL_TEST_REGISTRIES" not in os.environ, reason="registries: SEATRIAL_TEST_REGISTRIES is not set"
)
@pytest.mark.timeout(900)
def test_a_real_agent_starts_from_its_tree(tmp_path, monkeypatch):
    monkeypatch.delenv("SEATRIAL_OFFLINE")

    async def work(means: BakeMeans, backend: SandboxBackend) -> bytes:
        await baked_layer(means, CODEX, lambda _: None)
        image = await StoreSource(means.store, backend).extend(HOST_IMAGE, Setup(layer=CODEX), unexpected)
        async with open_sandbox(backend, SandboxSpec(image=image)) as sandbox:
            spec = ExecSpec((f"{programs_of(CODEX)}/codex", "--version"), env={"HOME": "/tmp"}, user=1000)
            return (await sandbox.exec(spec)).stdout

    assert b"0.166.0" in with_means(tmp_path, work)
