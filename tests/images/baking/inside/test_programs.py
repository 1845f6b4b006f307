"""Programs of this machine: their loader and their libraries; whatever a file says of itself, reading it ends."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.images.baking.inside.programs import is_elf, libraries_of, loader_of

PYTHON = Path(sys._base_executable).resolve()  # type: ignore[attr-defined]


def test_a_program_names_its_loader_which_tells_its_libraries():
    loader = loader_of(PYTHON)
    if loader is None:
        pytest.skip("the Python that runs this is static")
    found = libraries_of(loader, [PYTHON])
    assert is_elf(PYTHON)
    assert found[Path(loader).name] == Path(loader)
    assert all(path.exists() for path in found.values())
    assert subprocess.run([loader, str(PYTHON), "-c", ""], check=False).returncode == 0


def test_a_script_has_none(tmp_path):
    (tmp_path / "script").write_text("#!/bin/sh\n")
    assert loader_of(tmp_path / "script") is None
    assert loader_of(tmp_path) is None


@given(header=st.binary(min_size=58, max_size=58), rest=st.binary(max_size=200))
def test_whatever_a_header_says(tmp_path_factory, header, rest):
    file = tmp_path_factory.getbasetemp() / "strange"
    file.write_bytes(b"\x7fELF\x02\x01" + header + rest)
    assert loader_of(file) is None or isinstance(loader_of(file), str)
