"""Tests that are left out or skipped: `make test-all` has them all, and in CI a skip for want of a part fails."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import conftest
from tests.conftest import REPOSITORY

HOOKS = sorted(name for name in vars(conftest) if name.startswith("pytest_"))
WHOLE_FILE = "import pytest\n\npytest.skip('no flux capacitor here', allow_module_level=True)\n"
SKIPPED = "import pytest\n\n@pytest.mark.skip(reason='no flux capacitor here')\ndef test_it(): pass\n"
WHOLE = "import pytest\n\n@pytest.mark.whole({})\ndef test_it(): assert False\n"
ALONE = "import pytest\n\n@pytest.mark.alone\ndef test_it(): assert False\n"


@pytest.mark.parametrize(
    ("tests", "required", "code"),
    [
        (SKIPPED, "warp drive", 0),
        (SKIPPED, "warp drive,flux capacitor", 1),
        (WHOLE_FILE, "warp drive", 5),  # nothing was run
        (WHOLE_FILE, "flux capacitor", 2),
        (WHOLE.format("'no flux capacitor here'"), "warp drive", 0),
        (WHOLE.format("'no flux capacitor here'"), "flux capacitor", 1),
        (WHOLE.format("None"), "", 1),
        (ALONE, "", 1),
    ],
)
def test_a_skip_for_want_of_a_required_part_fails(tmp_path, tests, required, code):
    assert exit_code(tmp_path, tests, "--whole", required=required) == code


@pytest.mark.parametrize(("tests", "code"), [(SKIPPED, 0), (WHOLE.format("None"), 5), (ALONE, 5)])
def test_without_being_asked_for_what_is_whole_is_left_out(tmp_path, tests, code):
    assert exit_code(tmp_path, tests) == code


def exit_code(folder: Path, tests: str, *options: str, required: str = "") -> int:
    """What pytest ends with for a file of tests."""
    (folder / "conftest.py").write_text(f"from tests.conftest import {', '.join(HOOKS)}\n")
    (folder / "test_it.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "--rootdir", folder, *options]
    done = subprocess.run(
        [*map(str, command), "-c", os.devnull, str(folder / "test_it.py")],
        env={**os.environ, "SEATRIAL_REQUIRE": required, "PYTHONPATH": str(REPOSITORY)},
        check=False,
    )
    return done.returncode
