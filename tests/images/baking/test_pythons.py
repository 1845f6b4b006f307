"""Which Python goes into a tree, and what is copied of it."""

import io
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from seatrial.errors import UsageError
from seatrial.images.baking import pythons
from seatrial.images.baking import pythons as python_copy
from seatrial.images.baking.pythons import PythonHome, choose_python, examine, pack_pip, pack_python

HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"


def fake(version: tuple[int, int, int]) -> PythonHome:
    return PythonHome(Path(f"/usr/bin/python{version[0]}.{version[1]}"), Path("/usr/lib"), version)


@pytest.fixture
def three(monkeypatch):
    homes = {Path(f"/p/{minor}"): fake((3, minor, 1)) for minor in (13, 12, 11)}
    monkeypatch.setattr(pythons, "candidates", lambda: iter([Path("/p/broken"), *homes]))
    monkeypatch.setattr(pythons, "examine", homes.get)


@pytest.mark.parametrize(
    ("wanted", "minor"),
    [(None, 13), (">=3.12", 13), (">=3.10,<3.13", 12), ("==3.11.*", 11), ("3.12", 12), ("<=3.11", 11)],
)
def test_the_newest_that_fits_is_chosen(three, wanted, minor):
    assert choose_python(wanted, "pi 1").version[1] == minor


def test_where_none_fits_those_that_are_there_are_named(three):
    with pytest.raises(UsageError, match=r"pi 1 is baked with a Python >=3\.14 .* found 3\.11\.1, 3\.12\.1, 3\.13\.1"):
        choose_python(">=3.14", "pi 1")
    with pytest.raises(UsageError, match="python = 'new' is not understood"):
        choose_python("new", "pi 1")


def test_what_is_no_python_is_passed_over(tmp_path):
    assert examine(Path("/bin/true")) is None
    assert examine(tmp_path / "none") is None


def test_a_copy_runs_on_its_own_with_an_environment_of_its_own(tmp_path):
    home = examine(Path(sys._base_executable))  # type: ignore[attr-defined]
    if home is None:
        pytest.skip("the Python that runs this cannot be copied")
    root = tmp_path / "tree"
    with (tmp_path / "python.tar").open("wb") as archive:
        pack_python(home, str(root), archive)
    with tarfile.open(tmp_path / "python.tar") as tar:
        names = tar.getnames()
    subprocess.run(["tar", "-xf", tmp_path / "python.tar", "-C", "/"], check=True)
    assert not [name for name in names if "/test/" in name or "/idlelib/" in name or "__pycache__" in name]
    ask = "import sys, json, ssl; print(sys.prefix, sys.base_prefix)"
    environ = {"LD_LIBRARY_PATH": str(root / "lib"), "PYTHONDONTWRITEBYTECODE": "1"}
    said = subprocess.check_output([str(root / "env/bin/python"), "-c", ask], env=environ, text=True)
    assert said.split() == [str(root / "env"), str(root / "python")]


def test_pip_comes_from_where_there_is_one(tmp_path, monkeypatch):
    home = fake((3, 12, 1))
    monkeypatch.setattr(python_copy, "_WHEELS_OF_DEBIAN", tmp_path)
    with tarfile.open(fileobj=io.BytesIO(), mode="w") as tar:
        monkeypatch.setattr(python_copy, "find_spec", lambda _: None)
        with pytest.raises(UsageError, match=r"agents are baked with pip, and neither /usr/bin/python3\.12 nor"):
            pack_pip(home, "/shop", tar)
        (tmp_path / "pip-25.0-py3-none-any.whl").write_bytes(b"wheel")
        assert pack_pip(home, "/shop", tar) == "/shop/pip/pip-25.0-py3-none-any.whl/pip"
        assert tar.getnames() == ["shop/pip/pip-25.0-py3-none-any.whl"]
