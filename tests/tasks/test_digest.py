"""A folder's digest: the same for copies, another for any change, blind to what tools leave behind."""

import os
import shutil

import pytest

from seatrial.errors import OversizeError
from seatrial.tasks.digest import digest_folder
from seatrial.tasks.layout import list_files
from seatrial.tasks.load import read_folder


@pytest.fixture
def folder(tmp_path):
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
def test_a_change_gives_another_digest(folder, change):
    before = digest_folder(folder)
    change(folder)
    assert digest_folder(folder) != before


def test_a_copy_has_the_same_digest_wherever_and_whenever(folder, tmp_path):
    copy = tmp_path / "elsewhere/copy"
    shutil.copytree(folder, copy, symlinks=True)
    os.utime(copy / "test.sh", (0, 0))
    assert digest_folder(copy) == digest_folder(folder)


def test_whoever_listed_the_files_gets_the_same_digest(folder):
    files = list_files(folder)
    assert digest_folder(folder, files) == digest_folder(folder)
    change_content(folder)
    assert digest_folder(folder, files) == digest_folder(folder)


def test_the_order_of_creation_does_not_matter(tmp_path):
    for root, names in ((tmp_path / "a", "abcdefgh"), (tmp_path / "b", "hgfedcba")):
        root.mkdir()
        for name in names:
            (root / name).write_text(name)
    assert digest_folder(tmp_path / "a") == digest_folder(tmp_path / "b")


@pytest.mark.parametrize("mode", [0o600, 0o666, 0o444, 0o611])
def test_only_the_owners_executable_bit_counts(folder, mode):
    (folder / "test.sh").chmod(0o644)
    before = digest_folder(folder)
    (folder / "test.sh").chmod(mode)
    assert digest_folder(folder) == before


@pytest.mark.parametrize("name", ["__pycache__", ".git", ".pytest_cache"])
def test_what_tools_leave_behind_does_not_count(folder, name):
    before = digest_folder(folder)
    (folder / "data" / name).mkdir()
    (folder / "data" / name / "x").write_text("x")
    assert digest_folder(folder) == before


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
    for folder, name in (("one", b"\xfe"), ("other", b"\xff")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / os.fsdecode(name)).touch()
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


def test_a_folder_that_is_too_large_is_not_read(folder):
    with (folder / "data/huge").open("wb") as file:
        file.truncate(50 * 2**30)
    with pytest.raises(OversizeError, match="data/huge"):
        digest_folder(folder)


def test_of_a_file_that_grows_counts_what_it_had_when_it_was_opened(folder, monkeypatch):
    path = folder / "data/a.csv"
    path.write_bytes(b"x" * (2**20 + 10))
    before = digest_folder(folder)
    read, reads = os.read, []

    def read_and_grow(descriptor, size):
        with path.open("ab") as file:
            file.write(b"x" * 2**20)
        reads.append(size)
        return read(descriptor, size)

    path.write_bytes(b"x" * (2**20 + 10))
    monkeypatch.setattr("seatrial.tasks.digest.os.read", read_and_grow)
    digest_folder(folder)
    assert len(reads) < 10
    monkeypatch.undo()
    assert digest_folder(folder) != before
