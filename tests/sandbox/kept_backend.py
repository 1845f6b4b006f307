"""The contract with one backend for all scenarios of a class: to start one takes longer than most of them."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, ClassVar

import pytest

from seatrial.sandbox.api import SandboxBackend
from seatrial.testing.contract import SandboxContract


class KeptBackendContract(SandboxContract):
    """Scenarios that end a backend still make one of their own."""

    kept: ClassVar[tuple[asyncio.Runner, SandboxBackend]]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def keep_backend(cls) -> Iterator[None]:
        with asyncio.Runner() as runner:
            backend = runner.run(cls().make_backend().__aenter__())
            cls.kept = runner, backend
            try:
                yield
            finally:
                runner.run(backend.__aexit__(None, None, None))

    def open_backend(self) -> AbstractAsyncContextManager[SandboxBackend]:
        return self._use()

    @asynccontextmanager
    async def _use(self) -> AsyncIterator[SandboxBackend]:
        yield self.kept[1]

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        self.kept[0].run(work)
