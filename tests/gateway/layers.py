"""Sandboxes with something installed: a directory laid over this machine's own system, as an image layer."""

from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from seatrial.sandbox.api import Capabilities, Image, Sandbox, SandboxSpec
from seatrial.sandbox.embedded.backend import EmbeddedBackend


class LayeredBackend:
    """The embedded backend; every sandbox on the host's system has one more layer."""

    def __init__(self, layer: Path) -> None:
        self._inner = EmbeddedBackend()
        self._image = Image(f"host + {layer}", layers=(layer,), base="host")

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._inner.__aexit__(kind, error, trace)

    async def probe(self) -> Capabilities:
        return await self._inner.probe()

    async def create(self, spec: SandboxSpec) -> Sandbox:
        return await self._inner.create(replace(spec, image=self._image))
