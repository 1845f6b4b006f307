"""Backends that take the place of registered ones."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from seatrial.backends import named
from seatrial.backends.named import BackendPlugin
from seatrial.sandbox.api import SandboxBackend


def stand_in(patch: pytest.MonkeyPatch, make: Callable[[], SandboxBackend], name: str = "embedded") -> None:
    """Have whoever asks for a backend by this name get another one; all else about it stays."""
    find, plugin = named.find_backend, named.find_backend(name)
    assert plugin is not None
    changed = replace(plugin, make=make)

    def find_instead(asked: str) -> BackendPlugin | None:
        return changed if asked == name else find(asked)

    patch.setattr(named, "find_backend", find_instead)
