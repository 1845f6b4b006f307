"""What differs from the image, read from the writable directories of a sandbox that is none."""

import json
import os
import stat
import tempfile
from pathlib import Path
from typing import Any

import pytest

from seatrial.sandbox.embedded.changes import remember_files, write_changes
from seatrial.sandbox.embedded.roots import Tree
from tests.sandbox.embedded.support import needs_root


@pytest.fixture
def state(tmp_path: Path):
    """The directory of a sandbox with one file, /old, written by setting it up, and /kept in its image."""
    for folder in ("image", "upper/root"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "image/kept").write_text("as it was")
    (tmp_path / "upper/root/old").write_text("basics")
    descriptor = os.open(tmp_path, os.O_PATH | os.O_DIRECTORY)
    remember_files(descriptor)
    yield descriptor
    os.close(descriptor)


def changes(state: int, root: Path, limit: int = 100) -> dict[str, Any]:
    with tempfile.TemporaryFile() as answer:
        write_changes(state, [Tree("", (str(root / "image"),))], limit, answer.fileno())
        answer.seek(0)
        found: dict[str, Any] = json.loads(answer.read())
        return found


def test_nothing_has_changed_at_the_start(state, tmp_path):
    assert changes(state, tmp_path) == {"added": [], "modified": [], "removed": [], "truncated": False}


def test_added_and_modified_files_are_told_apart_by_the_image(state, tmp_path):
    for name in ("new", "kept", "old"):
        (tmp_path / "upper/root" / name).write_text("something else")
    assert changes(state, tmp_path) == {
        "added": ["/new", "/old"],
        "modified": ["/kept"],
        "removed": [],
        "truncated": False,
    }


@pytest.mark.parametrize(("limit", "truncated"), [(4, True), (5, False), (6, False)])
def test_more_changes_than_there_is_room_for_are_cut_off_and_that_is_said(state, tmp_path, limit, truncated):
    for number in range(5):
        (tmp_path / f"upper/root/{number}").touch()
    found = changes(state, tmp_path, limit)
    assert (len(found["added"]), found["truncated"]) == (min(limit, 5), truncated)


def test_system_folders_and_files_of_the_root_are_listed_before_what_anybody_can_fill(state, tmp_path):
    upper = tmp_path / "upper/root"
    for path in [*(f"a/{number}" for number in range(9)), "conftest.py", "usr/bin/python3", "etc/hosts"]:
        (upper / path).parent.mkdir(parents=True, exist_ok=True)
        (upper / path).touch()
    found = changes(state, tmp_path, limit=3)
    assert (found["added"], found["truncated"]) == (["/conftest.py", "/etc/hosts", "/usr/bin/python3"], True)


@pytest.mark.parametrize(("depth", "truncated"), [(101, False), (102, True)])
def test_what_lies_too_deep_is_not_listed_and_that_is_said(state, tmp_path, depth, truncated):
    folder = tmp_path / "upper/root" / "/".join("d" * (depth - 1))
    folder.mkdir(parents=True)
    (folder / "file").touch()
    found = changes(state, tmp_path)
    assert (len(found["added"]), found["truncated"]) == (0 if truncated else 1, truncated)


def test_what_is_remembered_later_replaces_what_was_remembered_before(state, tmp_path):
    old = tmp_path / "upper/root/old"
    old.unlink()
    remember_files(state)
    old.write_text("basics")
    assert changes(state, tmp_path)["added"] == ["/old"]
    remember_files(state)
    assert changes(state, tmp_path)["added"] == []


@needs_root  # to make the marks of what is gone
def test_files_of_a_removed_directory_are_named_instead_of_it(state, tmp_path):
    for name in ("gone/deep/file", "gone/other", "elsewhere/file"):
        (tmp_path / "image" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "image" / name).touch()
    (tmp_path / "image/link").symlink_to("elsewhere")  # it leads where a layer has no say
    for name in ("gone", "link"):
        os.mknod(tmp_path / "upper/root" / name, stat.S_IFCHR, os.makedev(0, 0))
    assert changes(state, tmp_path)["removed"] == ["/gone/deep/file", "/gone/other", "/link"]
