"""`import verifiers` while the compat import is installed, from within a process and as a command."""

import importlib
import subprocess
import sys
import types

import pytest

import seatrial
from seatrial.errors import UsageError


def test_importing_is_installing_and_again_changes_nothing(compat):
    finders = list(sys.meta_path)
    compat.install()
    vf = importlib.import_module("verifiers")
    assert sys.meta_path == finders
    assert issubclass(vf.HarborEnv, seatrial.HarborEnv)
    assert vf.__version__.endswith("+seatrial")


def test_it_wins_over_a_package_that_is_installed_and_gives_way_again(compat, tmp_path, monkeypatch):
    (tmp_path / "verifiers.py").write_text("HarborEnv = 'theirs'")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert issubclass(importlib.import_module("verifiers").HarborEnv, seatrial.HarborEnv)
    compat.uninstall()
    assert importlib.import_module("verifiers").HarborEnv == "theirs"
    del sys.modules["verifiers"]


def test_a_package_that_is_imported_already_is_named(compat, monkeypatch):
    compat.uninstall()
    theirs = types.ModuleType("verifiers")
    theirs.__file__ = "/somewhere/verifiers/__init__.py"
    monkeypatch.setitem(sys.modules, "verifiers", theirs)
    with pytest.raises(UsageError, match=r"imported already, from /somewhere/verifiers/__init__.py; import seatrial"):
        compat.install()


PROGRAM = """
import sys
import verifiers as vf
from verifiers.types import Messages
print(vf.ToolEnv.__module__, sys.argv[1:], __name__)
"""


def run(*arguments, **options):
    command = [sys.executable, "-m", "seatrial.compat.verifiers", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def test_an_unchanged_program_is_run_with_its_arguments(tmp_path):
    (tmp_path / "beside.py").write_text("X = 1")
    (tmp_path / "program.py").write_text(f"import beside{PROGRAM}")
    done = run(str(tmp_path / "program.py"), "-n", "5")
    assert (done.stdout, done.returncode) == ("seatrial.env.tools ['-n', '5'] __main__\n", 0), done.stderr


def test_an_unchanged_module_is_run_with_its_arguments(tmp_path):
    (tmp_path / "own_module.py").write_text(PROGRAM)
    done = run("-m", "own_module", "x", cwd=tmp_path)
    assert (done.stdout, done.returncode) == ("seatrial.env.tools ['x'] __main__\n", 0), done.stderr


def test_a_program_that_lacks_datasets_is_told_how_to_get_it(compat, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "program.py").write_text("from datasets import Dataset")
    with pytest.raises(ModuleNotFoundError) as raised:
        compat.main([str(tmp_path / "program.py")])
    assert any("pip install 'seatrial[hf]'" in note for note in raised.value.__notes__)


def test_without_a_program_it_says_what_it_takes(compat, capsys):
    assert compat.main([]) == compat.main(["--help"]) == 2
    assert "PROGRAM.py" in capsys.readouterr().err


def test_keywords_that_nothing_takes_are_attributes_until_it_ends(compat):
    vf = importlib.import_module("verifiers")
    rows = [{"question": "?"}]
    assert vf.SingleTurnEnv(dataset=rows, name="mine", max_turn=3).name == "mine"
    compat.uninstall()
    with pytest.raises(UsageError, match="max_turn: did you mean max_turns"):
        seatrial.SingleTurnEnv(dataset=rows, max_turn=3)
