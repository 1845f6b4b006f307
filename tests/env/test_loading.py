"""Environments by name: where they are looked for, which arguments they take, and what is said when one fails."""

import importlib
import sys
from pathlib import Path

import pytest

from seatrial.env.loading import find_environment, find_module_file, load_environment
from seatrial.errors import UnknownArgumentError, UsageError
from tests.conftest import REPOSITORY

GOOD = """
import seatrial as vf

def load_environment(rows=2, *, hard=False):
    return vf.MultiTurnEnv(dataset=[{"question": "?"}] * rows, max_turns=1)
"""


@pytest.fixture(autouse=True)
def nothing_stays_imported(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    yield
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def write(path, text=GOOD):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("first_env.py", "first_env.py"),
        ("second-env/second_env.py", "./second-env"),
        ("third_env/__init__.py", "third_env"),
        ("fourth-env/src/fourth_env/__init__.py", "./fourth-env/"),
        ("fifth-env/fifth_env/fifth_env.py", "./fifth-env"),
        ("folder/anything.py", "folder"),
    ],
)
def test_files_and_folders_are_environments(file, name):
    write(file)
    environment = load_environment(name, rows=3)
    assert len(environment.get_dataset()) == 3
    assert environment.env_id == Path(name).stem
    assert vars(environment)["env_args"] == {"rows": 3}


def test_a_folder_s_project_names_its_module():
    write("here/other_name.py")
    write("here/more.py", "from other_name import load_environment\n")  # two files know the function
    write("here/pyproject.toml", '[project]\nname = "other-name"\n')
    assert find_environment("here").where.endswith("here/other_name.py")


def test_modules_beside_it_can_be_imported_also_later():
    write("two_files/rows_of_two_files.py", "ROWS = [{'question': '?'}]\n")
    late = "    from rows_of_two_files import ROWS\n    return vf.MultiTurnEnv(dataset=ROWS, max_turns=1)\n"
    write("two_files/two_files.py", f"import seatrial as vf\ndef load_environment():\n{late}")
    assert len(load_environment("two_files").get_dataset()) == 1


def test_two_modules_of_one_name_are_two_modules():
    write("a/same_env.py")
    write("b/same_env.py", GOOD.replace("rows=2", "rows=5"))
    loaded = [load_environment(f"{folder}/same_env.py") for folder in "aba"]
    assert [len(each.get_dataset()) for each in loaded] == [2, 5, 2]


@pytest.mark.parametrize("name", ["on-path-env", "on_path_env", "owner/on-path-env"])
def test_modules_that_can_be_imported_are_environments(monkeypatch, tmp_path, name):
    write("site/on_path_env.py")
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert load_environment(name).env_id == name


def test_a_file_goes_before_a_module(monkeypatch, tmp_path):
    write("site/both_env.py")
    write("both_env.py", GOOD.replace("rows=2", "rows=7"))
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert len(load_environment("both_env").get_dataset()) == 2
    assert len(load_environment("both_env.py").get_dataset()) == 7


def test_a_folder_of_environments_is_searched(tmp_path):
    write("environments/some_env/some_env.py")
    assert find_environment("some-env", [tmp_path / "environments"]).load({}).env_id == "some-env"


def test_entry_points_are_environments(monkeypatch, tmp_path):
    write("site/with_entry.py", GOOD.replace("load_environment", "make"))
    write(
        "site/entry-1.0.dist-info/entry_points.txt",
        "[seatrial.environments]\nmy-entry = with_entry:make\nmy-module = with_entry\n",
    )
    write("site/entry-1.0.dist-info/METADATA", "Name: entry\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    importlib.invalidate_caches()
    assert load_environment("my-entry", rows=1).env_id == "my-entry"
    with pytest.raises(UsageError, match="with_entry has no function load_environment"):
        load_environment("my-module")
    with pytest.raises(UsageError, match="installed environments: my-entry, my-module"):
        load_environment("my-other")


FAILURES = {
    "raises.py": ("import json\n\njson.loads('{')\ndef load_environment(): ...", r"raises.py, line 3: JSONDecodeError"),
    "syntax.py": ("def load_environment(:", r"syntax.py, line 1: SyntaxError: invalid syntax$"),
    "leaves.py": ("import sys\nsys.exit(3)\ndef load_environment(): ...", r"leaves.py, line 2: SystemExit: 3"),
    "nothing.py": ("def load_environment(): pass", "returned None; is a `return` missing"),
    "number.py": ("def load_environment(): return 3", "returned an int, expected a seatrial.Environment"),
    "text.py": ("load_environment = 'x'", "is a str, expected a function"),
    "later.py": ("async def load_environment(): pass", "is async, expected a plain function"),
    "named.py": ("def load_env(): pass", "has no function load_environment.*did you mean load_env?"),
    "needs.py": ("import no_such_package\ndef load_environment(): ...", "pip install no_such_package"),
    "theirs.py": ("import verifiers.envs as vf\ndef load_environment(): ...", r"line 1: .*seatrial\.compat\.verifiers"),
    "ours.py": (
        "import seatrial as vf\ndef load_environment():\n    return vf.MultiTurnEnv(dataset=[], max_turn=1)",
        "ours.py, line 3, in load_environment: MultiTurnEnv got an unknown argument max_turn: did you mean max_turns",
    ),
    "inside.py": (
        "def load_environment():\n    return broken()\ndef broken():\n    return 1 / 0",
        "inside.py, line 4, in broken: ZeroDivisionError: division by zero",
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_what_goes_wrong_is_one_error_with_the_line(monkeypatch, name):
    monkeypatch.setitem(sys.modules, "verifiers", None)  # as where it is not installed
    text, message = FAILURES[name]
    write(f"failing_{name}", text)
    with pytest.raises(UsageError, match=message) as caught:
        load_environment(f"failing_{name}")
    assert "\n" not in str(caught.value)


def test_a_module_that_failed_is_tried_again():
    write("mended.py", "raise ValueError\ndef load_environment(): ...")
    with pytest.raises(UsageError):
        load_environment("mended.py")
    write("mended.py")
    assert load_environment("mended.py").env_id == "mended"


def test_arguments_are_those_of_the_function():
    write("takes.py", GOOD.replace("rows=2", "rows"))
    with pytest.raises(UnknownArgumentError, match=r"takes no argument 'hart'; did you mean hard.*rows, hard=False"):
        load_environment("takes.py", rows=1, hart=True)
    with pytest.raises(UsageError, match=r"needs the argument 'rows'.*Its arguments: rows, hard=False"):
        load_environment("takes.py")


def test_a_function_that_takes_anything_gets_anything():
    write("open_env.py", GOOD.replace("*, hard=False", "**others"))
    assert vars(load_environment("open_env.py", whatever=1))["env_args"] == {"whatever": 1}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nope", "no file or folder nope here, and no module nope is installed.*seatrial env init nope"),
        ("./nope/it.py", "nothing at nope/it.py"),
        ("empty", "empty has no Python file that defines load_environment"),
        ("json", "has no function load_environment"),
        ("evals.toml", "evals.toml is a file of settings, expected an environment"),
    ],
)
def test_names_of_nothing_say_where_was_looked(name, message):
    Path("empty").mkdir()
    with pytest.raises(UsageError, match=message):
        load_environment(name)


@pytest.mark.parametrize("place", ["examples/tasks", "examples/tasks/voltage-drop"])
def test_a_folder_of_tasks_is_no_environment(place):
    with pytest.raises(UsageError, match=r"holds Harbor tasks.*seatrial run -p .*HarborEnv"):
        find_module_file(REPOSITORY / place)


def test_a_name_with_dashes_finds_the_folder_with_underscores():
    write("my_own_env/my_own_env.py")
    assert len(load_environment("./my-own-env").get_dataset()) == 2
    assert len(load_environment("my-own-env").get_dataset()) == 2


def test_a_folder_of_other_things_is_no_module():
    write("just_data/notes.txt", "x")
    with pytest.raises(UsageError, match=r"just_data has no Python file that defines load_environment"):
        load_environment("just_data")
    with pytest.raises(UsageError, match=r"there is nothing at just-data"):
        load_environment("./just-data")
