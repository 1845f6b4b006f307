"""Who files belong to: names and numbers of an image."""

from pathlib import Path

import pytest

from seatrial.images.building.copying import find_owner
from seatrial.images.building.trees import LayerView
from seatrial.tasks.dockerfile import WordError


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
