"""Layers read as overlayfs reads them: marks, opaque folders, and links that are never followed."""

import os
import stat

import pytest

from seatrial.errors import TooLargeError
from seatrial.sandbox.layers import OPAQUE_MARKS, LayerFinder, find_in_layers, names_in_layers, refuse_large
from tests.sandbox.embedded.support import needs_root


def make(layer, *paths):
    for path in paths:
        (layer / path).parent.mkdir(parents=True, exist_ok=True)
        (layer / path).write_text("")
    return layer


def remove(layer, path):
    (layer / path).parent.mkdir(parents=True, exist_ok=True)
    os.mknod(layer / path, stat.S_IFCHR, os.makedev(0, 0))


def hide(folder):
    try:
        os.setxattr(folder, OPAQUE_MARKS[1], b"y")
    except OSError:
        pytest.skip("the file system of temporary files keeps no marks")


@pytest.fixture
def layers(tmp_path):
    """Two layers, topmost first."""
    for name in ("top", "low"):
        (tmp_path / name).mkdir()
    make(tmp_path / "low", "usr/bin/old", "usr/bin/gone", "usr/lib/deep/one")
    make(tmp_path / "top", "usr/bin/new")
    return tmp_path / "top", tmp_path / "low"


def agree(layers, folder, names):
    """What a folder lists is what is found in it."""
    listed = names_in_layers([str(layer) for layer in layers], folder)
    assert listed == set(names)
    every = {name for layer in layers if (layer / folder[1:]).is_dir() for name in os.listdir(layer / folder[1:])}
    assert listed == {name for name in every if find_in_layers([str(layer) for layer in layers], f"{folder}/{name}")}
    finder = LayerFinder([str(layer) for layer in layers])
    for path in (f"{above}/{name}" for above in (folder, f"{folder}/{min(every, default='')}") for name in every):
        assert finder.find(path) == find_in_layers([str(layer) for layer in layers], path)


@needs_root
def test_layers_are_taken_together(layers):
    agree(layers, "/usr/bin", ["new", "old", "gone"])
    agree(layers, "/usr", ["bin", "lib"])
    agree(layers, "/nowhere", [])


@needs_root
def test_what_a_layer_removes_is_not_there(layers):
    remove(layers[0], "usr/bin/gone")
    remove(layers[0], "usr/lib")
    agree(layers, "/usr/bin", ["new", "old"])
    agree(layers, "/usr/lib/deep", [])


@needs_root
@pytest.mark.parametrize("hidden", ["usr/bin", "usr"])
def test_an_opaque_folder_hides_what_is_below_it_at_any_depth(layers, hidden):
    hide(layers[0] / hidden)
    agree(layers, "/usr/bin", ["new"])


@needs_root
def test_a_link_leads_nowhere(layers):
    (layers[0] / "usr/lib").symlink_to("bin")
    assert names_in_layers([str(layer) for layer in layers], "/usr/lib") == frozenset()
    assert names_in_layers([str(layer) for layer in layers], "/usr/lib/deep") == frozenset()


@needs_root
def test_links_and_files_on_the_way_lead_to_nothing_for_those_who_look_for_many_paths(layers):
    (layers[0] / "usr/lib").symlink_to("bin")
    finder = LayerFinder([str(layer) for layer in layers])
    assert finder.find("/usr/lib") == str(layers[0] / "usr/lib")
    nowhere = ("/usr/lib/new", "/usr/lib/deep/one", "/usr/bin/new/x", "/usr/x/y")
    assert not any(map(finder.find, nowhere))
    assert finder.find("/usr/bin/old") == str(layers[1] / "usr/bin/old")


def test_what_is_in_a_folder_that_no_layer_has_is_not_looked_for_one_by_one(layers, monkeypatch):
    looked = []
    lstat = os.lstat

    def look(path):
        looked.append(path)
        return lstat(path)

    monkeypatch.setattr(os, "lstat", look)
    finder = LayerFinder([str(layer) for layer in layers])
    assert not any(finder.find(f"/usr/lib/added/{number}") for number in range(1_000))
    assert len(looked) < 20


@pytest.mark.parametrize(
    ("contents", "entries", "message"),
    [
        (33 * 2**20, 1, "has 34,603,520 bytes, and the limit is 33,554,432"),
        (0, 6000, "6,000 files and directories differ from the image, and the limit is 5,461"),
    ],
)
def test_what_would_take_long_is_refused(contents, entries, message):
    with pytest.raises(TooLargeError, match=message):
        refuse_large(contents, entries, 32 * 2**20)


def test_few_entries_are_never_too_many():
    refuse_large(0, 512, 2**18)
