"""The contract as an ordinary user. Its name keeps pytest from collecting it: `test_embedded.py` runs it as one."""

import asyncio
import os

from seatrial.sandbox.api import SandboxBackend
from seatrial.sandbox.embedded.backend import EmbeddedBackend
from seatrial.testing.contract import SandboxContract


class TestAsUser(SandboxContract):
    def make_backend(self) -> SandboxBackend:
        return EmbeddedBackend()

    def test_there_are_as_many_users_inside_as_expected(self) -> None:
        async def look() -> tuple[str, bool]:
            async with EmbeddedBackend() as backend:
                capabilities = await backend.probe()
                return capabilities.mode, capabilities.many_users

        assert asyncio.run(look()) == ("user", os.environ["USERS_EXPECTED"] == "many")
