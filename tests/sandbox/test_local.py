"""The local backend keeps the contract as far as plain processes can, and refuses loudly where they cannot."""

import pytest

from seatrial.sandbox.api import SandboxBackend
from seatrial.sandbox.local import LocalBackend
from seatrial.testing.contract import SandboxContract

ignore_warning = pytest.mark.filterwarnings("ignore::seatrial.sandbox.local.UnisolatedWarning")


@ignore_warning
class TestContract(SandboxContract):
    def make_backend(self) -> SandboxBackend:
        return LocalBackend()
