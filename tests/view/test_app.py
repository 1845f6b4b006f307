"""What a viewer imports before it can answer: nothing that reads jobs or makes pages, which is slow to import."""

import subprocess
import sys
from importlib import import_module

import pytest

from seatrial.view.app import PAGES, place_of

SLOW = ("pydantic", "numpy", "jinja2", "seatrial.report.text", "seatrial.view.library", "seatrial.view.pages")
CODE = """
import sys
from pathlib import Path
from seatrial.view.app import make_app
from seatrial.view.access import ViewSettings
make_app(ViewSettings((Path("."),), token="t"))
print(*sys.modules)
"""


def test_a_viewer_starts_without_what_reads_jobs():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert not {*SLOW} & {*done.stdout.split()}


@pytest.mark.parametrize("module", PAGES)
def test_every_page_of_a_module_has_the_address_that_the_module_gives_it(module):
    assert tuple(map(place_of, import_module(f"seatrial.view.{module}").routes())) == PAGES[module]
