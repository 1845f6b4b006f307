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


READING = """
import asyncio, sys, threading
from pathlib import Path
from aiohttp import web
from seatrial.view import app
from seatrial.view.access import ViewSettings

async def show():
    made = app.make_app(ViewSettings((Path(sys.argv[1]),), token="t"))
    runner = web.AppRunner(made)
    await runner.setup()
    (reading,) = [each for each in threading.enumerate() if each.name == "seatrial-read-ahead"]
    await asyncio.to_thread(list, made[app.VIEW].library.cards())
    await runner.cleanup()
    reading.join()

app._FIRST_ANSWER_SEC = 3600
asyncio.run(show())
print(*sys.modules)
"""


def test_the_rest_of_the_pages_waits_for_the_first_answer_and_no_viewer_waits_for_it(tmp_path):
    done = subprocess.run([sys.executable, "-c", READING, tmp_path], capture_output=True, text=True, check=True)
    assert "seatrial.view.pages.job" in done.stdout.split()
    assert not {"seatrial.view.pages.trial", "seatrial.view.pages.review"} & {*done.stdout.split()}


@pytest.mark.parametrize("module", PAGES)
def test_every_page_of_a_module_has_the_address_that_the_module_gives_it(module):
    assert tuple(map(place_of, import_module(f"seatrial.view.{module}").routes())) == PAGES[module]
