"""Who files belong to: names and numbers of an image, and what owners on this machine stand for."""

import os
from pathlib import Path

import pytest

from seatrial.images.building.layer_view import LayerView
from seatrial.images.building.owners import OwnersHere, find_owner
from seatrial.images.building.words import WordError


@pytest.fixture
def view(tmp_path: Path) -> LayerView:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("broken\nalice:x:1000:1001::/:\nodd:x:x:y\n")
    (tmp_path / "etc/group").write_text("staff:x:50:\nodd:x:y:\n")
    return LayerView([tmp_path])


@pytest.mark.parametrize(
    ("text", "owner"),
    [
        ("alice", (1000, 1001)),
        ("alice:", (1000, 1001)),
        ("alice:staff", (1000, 50)),
        ("alice:7", (1000, 7)),
        ("1234", (1234, 1234)),
        ("1234:staff", (1234, 50)),
        (":staff", (0, 50)),
        ("0", (0, 0)),
    ],
)
def test_names_and_numbers(view, text, owner):
    assert find_owner(view, text) == owner


@pytest.mark.parametrize(
    "text", ["bob", "odd", "alice:bob", "alice:odd", "4294967295", "99999999999", "0:4294967295", "²"]
)
def test_nobody(view, text):
    with pytest.raises(WordError):
        find_owner(view, text)


def status(uid: int, gid: int) -> os.stat_result:
    return os.stat_result((0, 0, 0, 0, uid, gid, 0, 0, 0, 0))


def test_for_root_owners_are_who_they_are():
    everybody = OwnersHere((0, 0), ((1, 2**32 - 2), (1, 2**32 - 2)))
    assert [everybody.inside(status(uid, uid + 1)) for uid in (0, 1, 1000)] == [(0, 1), (1, 2), (1000, 1001)]


def test_for_a_user_own_files_are_roots():
    user = OwnersHere((1007, 1008), ((100_000, 65536), (200_000, 65536)))
    assert user.inside(status(1007, 1008)) == (0, 0)
    assert user.inside(status(100_000, 200_000)) == (1, 1)
    assert user.inside(status(100_999, 200_049)) == (1000, 50)
    assert user.inside(status(99_999, 5)) == (0, 0)
