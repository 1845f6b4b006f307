"""Programs that not every machine has: a test that needs one is skipped, and says which package brings it."""

import os
import shutil

import pytest

from seatrial.sandbox.api import DEFAULT_PATH

# Root's sandboxes are given one where there is none.
needs_python_by_that_name = pytest.mark.skipif(
    os.geteuid() != 0 and shutil.which("python", path=DEFAULT_PATH) is None,
    reason="no python for an ordinary user's sandboxes: install python-is-python3",
)


def needs_program(name: str, package: str) -> pytest.MarkDecorator:
    """Skip without a program."""
    lacking = shutil.which(name, path=DEFAULT_PATH) is None
    return pytest.mark.skipif(lacking, reason=f"no {name}: install {package}")
