"""What a viewer imports before it can answer: nothing that reads jobs or makes pages, which is slow to import."""

import subprocess
import sys

SLOW = ("pydantic", "numpy", "jinja2", "seatrial.report.text", "seatrial.view.library", "seatrial.view.pages")
CODE = """
import sys
from pathlib import Path
from seatrial.view.app import make_app
from seatrial.view.settings import ViewSettings
make_app(ViewSettings((Path("."),), token="t"))
print(*sys.modules)
"""


def test_a_viewer_starts_without_what_reads_jobs():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert not {*SLOW} & {*done.stdout.split()}
