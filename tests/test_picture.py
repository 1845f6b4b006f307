"""The README's picture: what a terminal shows of a display that is drawn over, and one well-formed animation of it."""

import subprocess
import sys
from xml.etree import ElementTree as ET

import pytest

from examples.picture import PICTURE, draw
from examples.terminal import Screen, record

_SVG = "{http://www.w3.org/2000/svg}"


def parse(picture: str) -> ET.Element:
    return ET.fromstring(picture)  # noqa: S314 - it is our own


def test_what_is_drawn_over_is_gone_and_what_was_printed_above_stays():
    screen = Screen()
    screen.write("note\r\n\x1b[?25lbar 1/2\r\nrunning")
    screen.write("\r\x1b[2K\x1b[1A\x1b[2K\x1b[32mpass\x1b[0m one\r\nbar 2/2\r\n")
    assert [line for line in screen.lines if line] == ["note", "\x1b[32mpass\x1b[0m one", "bar 2/2"]


def test_a_program_is_watched_on_a_terminal_and_its_failure_is_not_drawn():
    script = "import os, sys; print(sys.stdout.isatty(), os.get_terminal_size().columns); sys.exit(int(sys.argv[1]))"
    assert "".join(record([sys.executable, "-c", script, "0"], 77, 20)).strip() == "True 77"
    with pytest.raises(subprocess.CalledProcessError):
        list(record([sys.executable, "-c", script, "3"], 77, 20))


def test_the_frames_are_one_picture():
    root = parse(draw([["$ make demo"], ["$ make demo", "\x1b[31m<fail> & more\x1b[0m"]]))
    frames = [group for group in root.iter(f"{_SVG}g") if group.get("class", "").startswith("frame ")]
    assert [frame.get("class") for frame in frames] == ["frame frame-0", "frame frame-1"]
    assert "<fail>\xa0&\xa0more" in "".join(frames[1].itertext())


def test_the_stored_picture_is_well_formed_and_names_no_path_of_a_machine():
    text = PICTURE.read_text(encoding="utf-8")
    parse(text)
    assert "/home/" not in text
    assert "127.0.0.1:8000" in text
