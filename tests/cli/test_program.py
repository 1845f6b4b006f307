"""Commands in advice begin with what the user can type."""

import sys
from pathlib import Path

import pytest

from seatrial.cli.program import command_line


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program `seatrial` in a folder that is not on the path."""
    program = tmp_path / "bin" / "seatrial"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return program


def test_a_program_that_is_not_on_the_path_is_named_as_it_was_started(installed: Path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["bin/seatrial", "run"])
    assert command_line("show", "jobs/my job") == "bin/seatrial show 'jobs/my job'"


def test_a_program_on_the_path_is_named_plainly(installed: Path, monkeypatch):
    monkeypatch.setenv("PATH", str(installed.parent))
    monkeypatch.setattr(sys, "argv", [str(installed), "run"])
    assert command_line("show", "job") == "seatrial show job"


def test_a_module_is_named_as_one(installed: Path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/somewhere/seatrial/__main__.py"])
    assert command_line("show", "job").endswith(" -m seatrial show job")
