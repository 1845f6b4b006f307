"""Programs that not every machine has: a test that needs one is skipped, and says which package brings it."""

import shutil

import pytest

from seatrial.sandbox.api import DEFAULT_PATH


def has_program(name: str) -> bool:
    """Whether a program is where the system keeps them."""
    return shutil.which(name, path=DEFAULT_PATH) is not None


def needs_program(name: str, package: str) -> pytest.MarkDecorator:
    """Skip without a program."""
    return pytest.mark.skipif(not has_program(name), reason=f"no {name}: install {package}")
