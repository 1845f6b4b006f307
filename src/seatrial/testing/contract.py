"""The conformance suite every sandbox backend must pass, as a class for pytest.

    class TestMyBackend(SandboxContract):
        def make_backend(self) -> SandboxBackend:
            return MyBackend()

Each test runs in an event loop, a backend and a sandbox of its own. What a backend's Capabilities say it cannot do is
skipped with its own reason from `missing`; that it refuses such things is tested instead. Reasons are looked up by the
name of the limit, the network mode, or `guarded_phases`, `own_system`, `many_users`, `layers`.
"""

import sys

import pytest

_PARTS = ("base", "exec", "files", "life", "network", "processes")
# Before they are imported, so that a failed assertion shows its values to the author of a backend.
_MODULES = (f"seatrial.testing.contract_{part}" for part in _PARTS)
pytest.register_assert_rewrite(*(name for name in _MODULES if name not in sys.modules))

from seatrial.testing.contract_base import Bench, ContractBase, new_mark, scenario
from seatrial.testing.contract_exec import ExecContract, LimitContract
from seatrial.testing.contract_files import ChangesContract, FileContract
from seatrial.testing.contract_life import LifeContract
from seatrial.testing.contract_network import NetworkContract
from seatrial.testing.contract_processes import HidingContract, PhaseContract, ProcessContract

__all__ = ["Bench", "ContractBase", "SandboxContract", "new_mark", "scenario"]


class SandboxContract(
    ExecContract,
    ProcessContract,
    HidingContract,
    PhaseContract,
    FileContract,
    ChangesContract,
    NetworkContract,
    LimitContract,
    LifeContract,
):
    """All of it. Subclass it under a name that pytest collects and fill in `make_backend`."""
