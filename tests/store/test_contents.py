"""Contents of end states that several trials have in common: on the disk once, and lost with none of them."""

import shutil
from pathlib import Path

from seatrial.store.contents import share_contents


def keep(folder: Path, name: str = "a" * 64, content: bytes = b"large") -> Path:
    path = folder / "snapshot.files" / f"{name}.zst"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_the_same_content_is_there_once_for_all_trials_and_steps(tmp_path):
    one, two, step = keep(tmp_path / "one"), keep(tmp_path / "two"), keep(tmp_path / "two/steps/first")
    other = keep(tmp_path / "two", "b" * 64)
    for trial in ("one", "two", "two"):
        share_contents(tmp_path / trial, tmp_path)
    assert one.samefile(two)
    assert one.samefile(step)
    assert not one.samefile(other)
    assert sorted(path.name for path in two.parent.iterdir()) == [one.name, other.name]
    assert one.stat().st_nlink == 4


def test_nobody_depends_on_another_or_on_the_pool(tmp_path):
    one, two = keep(tmp_path / "one"), keep(tmp_path / "two")
    for trial in ("one", "two"):
        share_contents(tmp_path / trial, tmp_path)
    shutil.rmtree(tmp_path / "one")
    shutil.rmtree(tmp_path / "contents")
    assert two.read_bytes() == b"large"
    assert not one.exists()


def test_what_cannot_be_shared_stays_as_it_is(tmp_path):
    path = keep(tmp_path / "one")
    (tmp_path / "contents").write_text("in the way")
    share_contents(tmp_path / "one", tmp_path)
    share_contents(tmp_path / "without any", tmp_path)
    assert path.read_bytes() == b"large"
    assert path.stat().st_nlink == 1


def test_another_size_is_another_content(tmp_path):
    keep(tmp_path / "one")
    cut = keep(tmp_path / "two", content=b"la")
    for trial in ("one", "two"):
        share_contents(tmp_path / trial, tmp_path)
    assert cut.read_bytes() == b"la"
