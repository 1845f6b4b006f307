"""A wrong answer in the shape of a right one."""

import json
from pathlib import Path

import pytest

from seatrial.check.chosen import stand_in
from tests.check.trying import accepted, make_subject
from tests.trial.support import write_task


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("a.json", '{"a": 1.5, "b": [1, 2], "c": "x", "d": true, "e": null}', None),
        ("a.csv", "name,size\nbolt,12\n", "name,size\nbolt,00\n"),
        ("a.txt", "words\n", "stand-in\n"),
        ("a.json", "{broken", "{}\n"),
        ("a.py", "def f(): pass\n", "# nothing\n"),
    ],
)
def test_shape_without_substance(tmp_path: Path, name: str, right: str, wrong: str | None) -> None:
    root = write_task(tmp_path, instruction=f"Write it to `/app/{name}`.\n")
    edit = stand_in(make_subject(root, accepted(f"/app/{name}", right)))
    assert edit is not None
    assert edit.content is not None
    if wrong is None:
        assert json.loads(edit.content) == {"a": 0, "b": [0], "c": "stand-in", "d": True, "e": None}
    else:
        assert edit.content.decode() == wrong


def test_nothing_to_stand_in_for(tmp_path: Path) -> None:
    root = write_task(tmp_path, instruction="Start it.\n")
    one, other = accepted("/app/a.txt", "1"), accepted("/app/b.txt", "2")
    assert stand_in(make_subject(root)) is None
    assert stand_in(make_subject(root, one, other)) is None
    assert stand_in(make_subject(root, one)) is not None
