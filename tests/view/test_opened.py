"""The tree of a trial's files: sizes, and what is no file for us."""

import os

import pytest

from seatrial.view.opened import MOST_ENTRIES, FileNode, tree_of
from tests.view.trial.trials import write_files


def test_a_tree_with_sizes(tmp_path):
    write_files(tmp_path, {"record.json": "{}", "verifier/files/reward.json": "1234", "verifier/stdout.txt": "x"})
    tree = tree_of(tmp_path)
    assert (tree.count, tree.size) == (3, 7)
    assert tree.files == [FileNode("record.json", "record.json", 2)]
    (verifier,) = tree.folders
    assert (verifier.path, verifier.count, verifier.size) == ("verifier", 2, 5)
    assert verifier.folders[0].files[0].path == "verifier/files/reward.json"
    below = tree_of(tmp_path, "verifier", begin="@try.1")
    assert below.files[0].path == "@try.1/stdout.txt"


def test_links_pipes_and_names_that_are_no_text_are_named_and_not_followed(tmp_path):
    write_files(tmp_path, {"elsewhere/secret": "s", "trial/agent/x": ""})
    trial = tmp_path / "trial"
    (trial / "link").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(trial / "pipe")
    (trial / os.fsdecode(b"\xff")).touch()
    tree = tree_of(trial)
    assert {node.name: node.kind for node in tree.files} == {
        "link": "link",
        "pipe": "no plain file",
        "\udcff": "its name is no text",
    }
    for below in ("link", "agent/../../elsewhere"):
        assert tree_of(trial, below).trouble == "it lies behind a link, and links are not followed"


@pytest.mark.whole
def test_what_is_endless_is_cut_and_says_so(tmp_path):
    for number in range(MOST_ENTRIES + 1):
        (tmp_path / f"{number}").touch()
    tree = tree_of(tmp_path)
    assert (tree.count, tree.trouble) == (MOST_ENTRIES, "there is more in it than is shown here")
    assert tree_of(tmp_path / "gone").trouble == "cannot be read: No such file or directory"


def test_a_folder_that_cannot_be_looked_at_says_why(tmp_path):
    assert tree_of(tmp_path, "long" * 100).trouble == "cannot be read: File name too long"
