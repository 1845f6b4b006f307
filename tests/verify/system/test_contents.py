"""Whether small files that tools load by themselves do any harm."""

import importlib.metadata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.verify.system.contents import (
    announces_plugins,
    imported_modules,
    is_harmless_git_config,
    is_harmless_path_file,
    path_folders,
)


@pytest.mark.parametrize("text", ["", "# note\n/app/src\n", "/opt/x-1.0/lib\n\n"])
def test_path_files_that_only_add_folders(text):
    assert is_harmless_path_file(text)


@pytest.mark.parametrize("text", [None, "import os", "import\tos", "/app\nimport x", "/app\x0cimport x", "relative"])
def test_path_files_that_do_more(text):
    assert not is_harmless_path_file(text)


def test_the_folders_that_they_add():
    assert path_folders("# x\n/app/./src/\nimport os\n") == {"/app/src"}
    assert path_folders(None) == frozenset()


@pytest.mark.parametrize(
    "text", [None, "[pytest11]\n", " [ pytest11 ]", "[[pytest11]]", "[x]\n\x0c[pytest11]\x0c", "[distutils.commands]"]
)
def test_plug_ins_are_announced_in_any_brackets(text):
    assert announces_plugins(text)


@given(st.text(alphabet="[]pytes1 \n\x0c\x1cx=", max_size=60))
def test_what_importlib_takes_for_plug_ins_is_seen(text):
    found = importlib.metadata.EntryPoints._from_text(text)  # type: ignore[attr-defined]
    try:
        groups = {point.group for point in found}
    except (AttributeError, ValueError, TypeError):
        return
    if "pytest11" in groups:
        assert announces_plugins(text)


def test_scripts_are_no_plug_ins():
    assert not announces_plugins("[console_scripts]\nx = x:main\n")


def test_modules_that_code_asks_for():
    text = "try:\n    import apport_python_hook\nexcept ImportError: pass\nimport os; import more\nfrom a.b import c\n"
    assert imported_modules(text) == {"apport_python_hook", "os", "more", "a"}


@pytest.mark.parametrize("text", ["[user]\nname = A\n", "[safe]\n\tdirectory = *\n# x\n"])
def test_git_settings_about_people_and_folders(text):
    assert is_harmless_git_config(text)


@pytest.mark.parametrize(
    "text", [None, "[core]\nfsmonitor = x", "[include]\npath = x", "[user]\nname = x\\\n", "[alias] x = !y"]
)
def test_git_settings_that_name_programs_or_files(text):
    assert not is_harmless_git_config(text)
