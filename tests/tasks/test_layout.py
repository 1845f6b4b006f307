"""Which files a task has, which links and special files it must not have, and how its text files are read."""

import io
import os
import shutil
import stat
import tarfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.errors import OversizeError
from seatrial.model.loaded_task import TaskLayout
from seatrial.sandbox.transfer import pack_layout, pack_trees
from seatrial.tasks.layout import (
    Bounds,
    TaskFiles,
    digest_folder,
    ignored_below,
    ignored_in,
    list_files,
    read_layout,
    read_text,
    walk,
)
from seatrial.tasks.load import read_folder


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "task"
    (root / "tests").mkdir(parents=True)
    (root / "tests/test.sh").write_text("")
    (tmp_path / "outside.txt").write_text("secret")
    return root


def files_of(*names):
    return TaskFiles(frozenset(names), frozenset(), (), ())


def test_files_of_any_depth_and_name_are_listed(folder):
    (folder / "tests/data/deep er").mkdir(parents=True)
    (folder / "tests/data/deep er/größe.csv").write_text("")
    assert list_files(folder).regular == {"tests/test.sh", "tests/data/deep er/größe.csv"}


@pytest.mark.parametrize("name", [".git", "__pycache__", ".pytest_cache", ".venv", "node_modules"])
def test_folders_that_tools_leave_behind_are_not_looked_into(folder, name):
    (folder / "tests" / name).mkdir()
    (folder / "tests" / name / "file").write_text("")
    (folder / "tests" / f"{name}.txt").write_text("")
    assert list_files(folder).regular == {"tests/test.sh", f"tests/{name}.txt"}


@pytest.mark.parametrize(
    "target",
    ["test.sh", "../tests/test.sh", "..", ".", "not-there", "../not-there"],
    ids=["file", "through ..", "the task", "its own folder", "dangling", "dangling above"],
)
def test_a_link_that_stays_inside_is_fine(folder, target):
    (folder / "tests/link").symlink_to(target)
    files = list_files(folder)
    assert files.has("tests/link")
    assert files.escaping == ()


@pytest.mark.parametrize(
    "target",
    ["../../outside.txt", "/etc/passwd", "/etc", "../..", "/not-there", "../../task-2", "../../task/../outside.txt"],
    ids=["file", "absolute", "folder", "parent", "dangling", "namesake", "through .."],
)
def test_a_link_that_leads_out_is_told_apart(folder, target):
    (folder / "tests/link").symlink_to(target)
    assert list_files(folder).escaping == ("tests/link",)


def test_a_link_that_leads_out_through_another_one_is_told_apart(folder):
    (folder / "up").symlink_to("..")
    (folder / "file").symlink_to("up/outside.txt")
    assert list_files(folder).escaping == ("file", "up")


def test_a_link_to_itself_leads_nowhere(folder):
    (folder / "loop").symlink_to("loop")
    files = list_files(folder)
    assert files.has("loop")
    assert files.escaping == ()


def test_a_linked_folder_is_not_walked(folder):
    (folder / "again").symlink_to(folder)
    assert list_files(folder).regular == {"tests/test.sh"}


@pytest.mark.parametrize("kind", [stat.S_IFIFO, stat.S_IFSOCK], ids=["pipe", "socket"])
def test_special_files_are_told_apart(folder, kind):
    os.mknod(folder / "tests/odd", kind | 0o600)
    assert list_files(folder).special == ("tests/odd",)
    assert not list_files(folder).has("tests/odd")


def test_a_folder_that_is_not_there_raises(tmp_path):
    with pytest.raises(FileNotFoundError):
        list_files(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("data", "text"),
    [(b"", ""), ("Maß\r\n".encode(), "Maß\r\n"), (b"\xef\xbb\xbfhello", "hello"), (b"12345678", "12345678")],
    ids=["empty", "as it stands", "without BOM", "at the limit"],
)
def test_text_is_read(tmp_path, data, text):
    (tmp_path / "file").write_bytes(data)
    assert read_text(tmp_path / "file", 8) == text


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"123456789", "it has 9 bytes, expected 8 at most"),
        (b"abc\xff", r"found byte 0xff, expected UTF-8 text \(line 1, column 4\)"),
        (b"\xed\xa0\x80", r"found byte 0xed, expected UTF-8 text \(line 1, column 1\)"),
    ],
    ids=["too large", "not UTF-8", "surrogate"],
)
def test_text_that_cannot_be_read_is_explained(tmp_path, data, reason):
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(ValueError, match=f"^{reason}$"):
        read_text(tmp_path / "file", 8)


def test_a_huge_file_is_refused_by_its_size_alone(tmp_path):
    with (tmp_path / "file").open("wb") as file:
        file.truncate(2**33)
    with pytest.raises(ValueError, match="expected 1,000 at most"):
        read_text(tmp_path / "file", 1000)


def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(ValueError, match="it is not a regular file"):
            read_text(path, 8)


@pytest.mark.parametrize("kind", ["missing", "socket", "loop"])
def test_what_cannot_be_opened_is_explained_in_the_words_of_the_system(tmp_path, kind):
    if kind == "socket":
        os.mknod(tmp_path / kind, stat.S_IFSOCK | 0o600)
    elif kind == "loop":
        (tmp_path / kind).symlink_to(kind)
    reason = {"missing": "No such file", "socket": "No such device", "loop": "Too many levels"}[kind]
    with pytest.raises(ValueError, match=reason):
        read_text(tmp_path / kind, 8)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], {}),
        (["instruction.md", "trajectory.json"], {"instruction": "instruction.md", "trajectory": "trajectory.json"}),
        (["environment/Dockerfile"], {"dockerfile": "environment/Dockerfile", "environment_files": True}),
        (["environment/data/x.csv"], {"environment_files": True}),
        (["environment/compose.yml", "environment/docker-compose.yaml"],
         {"compose_file": "environment/docker-compose.yaml", "environment_files": True}),
        (["tests/test.sh", "tests/Dockerfile"],
         {"test_script": "tests/test.sh", "verifier_dockerfile": "tests/Dockerfile"}),
        (["tests/docker-compose.yml"], {"verifier_compose_file": "tests/docker-compose.yml"}),
        (["solution/solve.sh", "solution/solve.py"], {"solution_script": "solution/solve.sh"}),
        (["solution/solve.py"], {"solution_script": "solution/solve.py"}),
        (["tests/test.bat", "solution/solve.bat", "test.sh"], {}),
    ],
    ids=["nothing", "texts", "Dockerfile", "loose files", "compose", "tests", "tests compose", "solution",
         "wild 7: solve.py", "not for Linux"],
)  # fmt: skip
def test_the_layout_of_a_linux_task(names, expected):
    assert read_layout(files_of(*names), "linux") == TaskLayout(**expected)


def test_a_windows_task_sees_batch_files_only():
    files = files_of("tests/test.sh", "tests/test.bat", "solution/solve.sh", "solution/solve.bat")
    expected = TaskLayout(test_script="tests/test.bat", solution_script="solution/solve.bat")
    assert read_layout(files, "windows") == expected


def test_a_step_has_its_own_files_and_shares_the_root_tests():
    files = files_of(
        "instruction.md", "solution/solve.sh", "tests/test.sh", "steps/a/instruction.md", "steps/b/tests/test.sh",
        "steps/b/tests/Dockerfile", "steps/b/solution/solve.sh", "steps/b/trajectory.json",
    )  # fmt: skip
    assert read_layout(files, "linux", "steps/a/") == TaskLayout(
        instruction="steps/a/instruction.md", test_script="tests/test.sh"
    )
    assert read_layout(files, "linux", "steps/b/") == TaskLayout(
        test_script="steps/b/tests/test.sh",
        verifier_dockerfile="steps/b/tests/Dockerfile",
        solution_script="steps/b/solution/solve.sh",
        trajectory="steps/b/trajectory.json",
    )


def sparse(path, size):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)


def test_a_folder_of_many_gigabytes_is_refused_by_its_sizes_alone(folder):
    sparse(folder / "tests/data.bin", 50 * 2**30)
    with pytest.raises(OversizeError, match=r"50\.0 GiB, the limit is 4\.0 GiB; the largest: tests/data\.bin \(50"):
        list_files(folder)


def test_many_small_files_count_together(folder):
    for number in range(4):
        sparse(folder / f"tests/{number}", 2**20)
    assert len(walk(str(folder), Bounds(max_bytes=4 * 2**20))[0]) == 5
    with pytest.raises(OversizeError, match=r"4\.0 MiB, the limit is 3\.0 MiB"):
        walk(str(folder), Bounds(max_bytes=3 * 2**20))


def test_more_entries_than_any_task_has_are_not_counted_to_the_end(folder):
    for number in range(20):
        (folder / f"{number}").mkdir()
    with pytest.raises(OversizeError, match="more than 10 files and directories"):
        walk(str(folder), Bounds(entries=10))


def test_directories_nested_without_end_are_refused(folder):
    deep = folder.joinpath(*["d"] * 101)
    deep.mkdir(parents=True)
    assert list_files(folder).regular == {"tests/test.sh"}
    (deep / "file").write_text("")
    with pytest.raises(OversizeError, match="nested more than 100 deep"):
        list_files(folder)


def test_what_tools_leave_behind_does_not_count_unless_asked_for(folder):
    sparse(folder / "node_modules/x", 50 * 2**30)
    list_files(folder)
    with pytest.raises(OversizeError):
        walk(str(folder), Bounds(), ignored=())


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


@pytest.fixture
def tests_folder(tmp_path):
    root = tmp_path / "tests"
    (root / "data").mkdir(parents=True)
    (root / "test.sh").write_text("#!/bin/sh\n")
    (root / "data/a.csv").write_text("1,2\n")
    (root / "link").symlink_to("data/a.csv")
    return root


def change_content(root):
    (root / "data/a.csv").write_text("1,3\n")


def rename(root):
    (root / "data/a.csv").rename(root / "data/b.csv")


def move(root):
    (root / "data/a.csv").rename(root / "a.csv")


def make_executable(root):
    (root / "test.sh").chmod(0o755)


def point_elsewhere(root):
    (root / "link").unlink()
    (root / "link").symlink_to("test.sh")


def replace_link_by_its_target(root):
    (root / "link").unlink()
    shutil.copy(root / "data/a.csv", root / "link")


def replace_link_by_its_text(root):
    (root / "link").unlink()
    (root / "link").write_text("data/a.csv")


def add_empty_file(root):
    (root / "empty").touch()


def remove(root):
    (root / "test.sh").unlink()


def swap_contents(root):
    (root / "data/a.csv").write_text("#!/bin/sh\n")
    (root / "test.sh").write_text("1,2\n")


CHANGES = [
    change_content, rename, move, make_executable, point_elsewhere, replace_link_by_its_target,
    replace_link_by_its_text, add_empty_file, remove, swap_contents,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_change_gives_another_digest(tests_folder, change):
    before = digest_folder(tests_folder)
    change(tests_folder)
    assert digest_folder(tests_folder) != before


def test_a_copy_has_the_same_digest_wherever_and_whenever(tests_folder, tmp_path):
    copy = tmp_path / "elsewhere/copy"
    shutil.copytree(tests_folder, copy, symlinks=True)
    os.utime(copy / "test.sh", (0, 0))
    assert digest_folder(copy) == digest_folder(tests_folder)


def test_whoever_listed_the_files_gets_the_same_digest(tests_folder):
    files = list_files(tests_folder)
    assert digest_folder(tests_folder, files) == digest_folder(tests_folder)
    change_content(tests_folder)
    assert digest_folder(tests_folder, files) == digest_folder(tests_folder)


def test_the_order_of_creation_does_not_matter(tmp_path):
    for root, names in ((tmp_path / "a", "abcdefgh"), (tmp_path / "b", "hgfedcba")):
        root.mkdir()
        for name in names:
            (root / name).write_text(name)
    assert digest_folder(tmp_path / "a") == digest_folder(tmp_path / "b")


@pytest.mark.parametrize("mode", [0o600, 0o666, 0o444, 0o611])
def test_only_the_owners_executable_bit_counts(tests_folder, mode):
    (tests_folder / "test.sh").chmod(0o644)
    before = digest_folder(tests_folder)
    (tests_folder / "test.sh").chmod(mode)
    assert digest_folder(tests_folder) == before


@pytest.mark.parametrize("name", ["__pycache__", ".git", ".pytest_cache"])
def test_what_tools_leave_behind_does_not_count(tests_folder, name):
    before = digest_folder(tests_folder)
    (tests_folder / "data" / name).mkdir()
    (tests_folder / "data" / name / "x").write_text("x")
    assert digest_folder(tests_folder) == before


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": "bc"}, {"ab": "c"}),
        ({"a": "", "b": ""}, {"a": "b"}),
        ({"a/b": "c"}, {"a": "b/c"}),
        ({"x": "1:y", "y": ""}, {"x": "", "y": "1:y"}),
        ({"d/e": "", "f": ""}, {"d/e/f": ""}),
    ],
    ids=["name and content", "two files and one", "path and content", "length mark", "folder and file"],
)
def test_bytes_cannot_move_between_names_and_contents_unseen(tmp_path, one, other):
    for root, files in ((tmp_path / "one", one), (tmp_path / "other", other)):
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
    assert digest_folder(tmp_path / "one") != digest_folder(tmp_path / "other")


def test_names_that_are_not_utf8_count_byte_by_byte(tmp_path):
    for tests_folder, name in (("one", b"\xfe"), ("other", b"\xff")):
        (tmp_path / tests_folder).mkdir()
        (tmp_path / tests_folder / os.fsdecode(name)).touch()
    assert digest_folder(tmp_path / "one") != digest_folder(tmp_path / "other")


def test_digests_that_are_already_stored_stay_comparable(tmp_path):
    for name in ("z", "a", "m", "test.sh", "B"):
        (tmp_path / name).write_text(name)
    (tmp_path / "test.sh").chmod(0o755)
    (tmp_path / "link").symlink_to("test.sh")
    assert digest_folder(tmp_path) == "fa292e281e99373cf0948931b2bc6f4af3ec6606ada6b97c0bae700d50ecf31e"


def test_what_loading_has_read_counts_as_it_was_read(make_task):
    root = make_task("task", files={"environment/Dockerfile": "WORKDIR /app\n", "environment/data": "1"})
    (root / "instruction.md").chmod(0o755)
    files, before = list_files(root), digest_folder(root)
    read_folder(root, "task", files)
    assert set(files.read) == {"task.toml", "instruction.md", "environment/Dockerfile"}
    assert digest_folder(root, files) == before
    (root / "instruction.md").write_text("Something else.\n")
    assert digest_folder(root, files) == before, "it is the digest of what was loaded"
    (root / "environment/data").write_text("2")
    assert digest_folder(root, files) != before


def test_a_folder_that_is_too_large_is_not_read(tests_folder):
    with (tests_folder / "data/huge").open("wb") as file:
        file.truncate(50 * 2**30)
    with pytest.raises(OversizeError, match="data/huge"):
        digest_folder(tests_folder)


def test_of_a_file_that_grows_counts_what_it_had_when_it_was_opened(tests_folder, monkeypatch):
    path = tests_folder / "data/a.csv"
    path.write_bytes(b"x" * (2**20 + 10))
    before = digest_folder(tests_folder)
    read, reads = os.read, []

    def read_and_grow(descriptor, size):
        with path.open("ab") as file:
            file.write(b"x" * 2**20)
        reads.append(size)
        return read(descriptor, size)

    path.write_bytes(b"x" * (2**20 + 10))
    monkeypatch.setattr("seatrial.tasks.layout.os.read", read_and_grow)
    digest_folder(tests_folder)
    assert len(reads) < 10
    monkeypatch.undo()
    assert digest_folder(tests_folder) != before


@pytest.mark.parametrize(
    ("pattern", "path"),
    [("a*" * 30 + "b", "a" * 200), ("**/a/**/a/**/b", "a/" * 2000), ("*a*a/" * 6, "a" * 90)],
)
def test_a_pattern_that_no_program_gets_to_the_end_of_is_refused(tmp_path, pattern, path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / ".harborignore").write_text(f"*.pyc\n{pattern}\n")
    ignored = ignored_in(tmp_path / "tests")
    with pytest.raises(OversizeError, match="has more stars than can be matched"):
        ignored(path)


def test_usual_patterns_have_not_too_many_stars(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / ".harborignore").write_text("**/build/**/*.test.*.js\n*_*_*_*.csv\n**/*~\n")
    ignored = ignored_in(tmp_path / "tests")
    assert ignored("a/build/b/" + "c/" * 12 + "x.test.y.js")
    assert ignored("measured_2026_05_04_left_bearing_of_the_second_pump.csv")
    assert not ignored("x/" * 12 + "y" * 60)
