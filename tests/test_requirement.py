"""Parts that CI must have: a skip for want of one is a failure there."""

import os
import subprocess
import sys

import pytest

from tests.conftest import REPOSITORY

WHOLE_FILE = "import pytest\n\npytest.skip('no flux capacitor here', allow_module_level=True)\n"
SKIPPED = "import pytest\n\n@pytest.mark.skip(reason='no flux capacitor here')\ndef test_it(): pass\n"


@pytest.mark.parametrize(
    ("tests", "required", "code"),
    [
        (SKIPPED, "warp drive", 0),
        (SKIPPED, "warp drive,flux capacitor", 1),
        (WHOLE_FILE, "warp drive", 5),  # nothing was run
        (WHOLE_FILE, "flux capacitor", 2),
    ],
)
def test_a_skip_for_want_of_a_required_part_fails(tmp_path, tests, required, code):
    (tmp_path / "conftest.py").write_text(
        "from tests.conftest import pytest_make_collect_report, pytest_runtest_makereport\n"
    )
    (tmp_path / "test_it.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [*command, "-c", os.devnull, str(tmp_path / "test_it.py")],
        env={**os.environ, "SEATRIAL_REQUIRE": required, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
