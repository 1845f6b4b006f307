"""Programs that not every machine has: a test that needs one is skipped, and says which package brings it."""

import shutil

import pytest

from seatrial.sandbox.api import DEFAULT_PATH


def needs_program(name: str, package: str) -> pytest.MarkDecorator:
    """Skip without a program."""
    lacking = shutil.which(name, path=DEFAULT_PATH) is None
    return pytest.mark.skipif(lacking, reason=f"no {name}: install {package}")
