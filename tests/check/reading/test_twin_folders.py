"""Twins as tasks: whole or not at all, marked, and nothing written outside of them."""

from pathlib import Path

import pytest

from seatrial.check.checks.twins import Twin
from seatrial.check.reading.twin_folders import write_twin
from seatrial.check.reading.twin_values import ExpectedValue
from seatrial.errors import UsageError
from seatrial.tasks.load import load_task
from tests.trial.support import write_task

TWIN = Twin(3, ExpectedValue("test.sh", 2, 0, 1, "right"), "right-twin", b"#!/bin/sh\nfalse\n")


@pytest.mark.parametrize("toml", ["", "[metadata]\ncategory = 'a'\n[agent]\n", "[ metadata ] # words\nx = 1\n"])
def test_a_marked_copy(tmp_path: Path, toml: str) -> None:
    root = write_task(tmp_path / "task", toml=toml, files={"environment/data.txt": "1", ".git/config": "x"})
    (root / "tests/test.sh").chmod(0o755)
    twin = write_twin(root, TWIN, tmp_path / "new" / "twins")
    assert twin == tmp_path / "new/twins/task--twin-3"
    assert (twin / "tests/test.sh").read_bytes() == TWIN.content
    assert (twin / "tests/test.sh").stat().st_mode & 0o777 == 0o755
    assert (twin / "environment/data.txt").read_text() == "1"
    assert not (twin / ".git").exists()
    assert load_task(twin).config.metadata["impossible"] is True
    assert "impossible" not in load_task(root).config.metadata
    assert [path.name for path in twin.parent.iterdir()] == ["task--twin-3"]


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    root = write_task(tmp_path / "task")
    write_twin(root, TWIN, tmp_path)
    with pytest.raises(UsageError, match="is there already"):
        write_twin(root, TWIN, tmp_path)


def test_metadata_that_cannot_be_marked(tmp_path: Path) -> None:
    root = write_task(tmp_path / "task")
    (root / "task.toml").write_text("metadata = { a = 1 }\n")
    with pytest.raises(UsageError, match="cannot be marked"):
        write_twin(root, TWIN, tmp_path / "twins")
    assert not (tmp_path / "twins").exists()


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    root = write_task(tmp_path / "task", files={"tests/real.sh": "#!/bin/sh\n"})
    (root / "tests/test.sh").unlink()
    (root / "tests/test.sh").symlink_to("real.sh")
    twin = write_twin(root, TWIN, tmp_path / "twins")
    assert (twin / "tests/real.sh").read_text() == "#!/bin/sh\n"
    assert (twin / "tests/test.sh").read_bytes() == TWIN.content
