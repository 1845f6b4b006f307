"""Files of tests/ and solution/ that are no part of a task."""

import io
import tarfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.sandbox.transfer import pack_layout, pack_trees
from seatrial.tasks.digest import digest_folder
from seatrial.tasks.ignore import ignored_below, ignored_in

LINES = """\
# what only its author needs
*.pyc
/notes.md
cache/
!keep.pyc
!
"""


def names(archive):
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return sorted(member.name.removeprefix("./") for member in tar if member.isfile())


@pytest.fixture
def tests(tmp_path):
    folder = tmp_path / "task" / "tests"
    for name in ("test.sh", "a.pyc", "keep.pyc", "notes.md", "deep/notes.md", "deep/cache/x", "cache/y"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / ".harborignore").write_text(LINES)
    return folder


KEPT = [".harborignore", "deep/notes.md", "keep.pyc", "test.sh"]


def test_ignored_files_are_not_laid_out(tests):
    assert names(pack_trees(tests, omit=ignored_in)) == KEPT
    laid_out = names(pack_layout({}, {"/tests": tests}, folders={}, omit=ignored_in))
    assert laid_out == [f"tests/{name}" for name in KEPT]


@pytest.mark.parametrize("of", ["task", "tests"])
def test_ignored_files_do_not_count_in_a_digest(tests, of):
    root = tests if of == "tests" else tests.parent
    before = digest_folder(root)
    for name in ("a.pyc", "cache/y", "deep/cache/new", "notes.md"):
        (tests / name).write_text("changed")
    assert digest_folder(root) == before
    (tests / "keep.pyc").write_text("changed")
    assert digest_folder(root) != before


def test_what_is_ignored_itself_counts(tests):
    before = digest_folder(tests.parent)
    (tests / ".harborignore").write_text("*.pyc\n")
    assert digest_folder(tests.parent) != before


def test_steps_have_their_own_and_other_folders_have_none(tmp_path):
    for folder in ("steps/one/tests", "steps/one/solution", "environment", "tests/deep"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / ".harborignore").write_text("*.log\n")
    paths = [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob(".harborignore")]
    ignored = ignored_below(tmp_path, paths)
    for path, expected in {
        "steps/one/tests/a.log": True,
        "steps/one/solution/deep/a.log": True,
        "steps/one/a.log": False,
        "environment/a.log": False,
        "tests/deep/a.log": False,
    }.items():
        assert ignored(path) is expected, path


def test_a_name_that_only_ends_like_it_says_nothing(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/my.harborignore").write_text("*\n")
    assert not ignored_below(tmp_path, ["tests/my.harborignore"])("tests/a")


def test_one_that_cannot_be_read_says_nothing(tmp_path):
    folder = tmp_path / "tests"
    (folder / ".harborignore").mkdir(parents=True)
    assert not ignored_in(folder)("a")


@given(content=st.binary(max_size=200))
@settings(max_examples=50)
def test_no_bytes_make_it_fail(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("task") / "tests"
    folder.mkdir()
    (folder / ".harborignore").write_bytes(content)
    assert ignored_in(folder)("some/file") in (True, False)
