"""Parts that CI must have: a skip for want of one is a failure there."""

import os
import subprocess
import sys

import pytest

from tests.conftest import REPOSITORY

SKIPPED = "import pytest\n\n@pytest.mark.skip(reason='no flux capacitor here')\ndef test_it(): pass\n"


@pytest.mark.parametrize(("required", "code"), [("warp drive", 0), ("warp drive,flux capacitor", 1)])
def test_a_skip_for_want_of_a_required_part_fails(tmp_path, required, code):
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_runtest_makereport\n")
    (tmp_path / "test_it.py").write_text(SKIPPED)
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [*command, "-c", os.devnull, str(tmp_path / "test_it.py")],
        env={**os.environ, "SEATRIAL_REQUIRE": required, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
