import os
from pathlib import Path

import pytest

from seatrial.errors import StoreError
from seatrial.view.rendering.bounded import BoundedContent, bounded, read_bounded


@pytest.fixture
def folder(tmp_path):
    """A folder with everything that a stranger can put there, and a secret outside of it."""
    (tmp_path / "secret.txt").write_text("secret")
    inside = tmp_path / "job"
    (inside / "logs").mkdir(parents=True)
    (inside / "logs/out.txt").write_text("fine")
    (inside / "link.txt").symlink_to(tmp_path / "secret.txt")
    (inside / "own-link.txt").symlink_to("logs/out.txt")
    (inside / "away").symlink_to(tmp_path)
    os.mkfifo(inside / "pipe")
    (inside / "long").mkdir()
    return inside


def test_a_small_file_is_read_as_a_whole(folder):
    content = read_bounded(folder / "logs/out.txt", folder)
    assert content == BoundedContent(b"fine", b"", 4)
    assert content == read_bounded((folder / "logs/out.txt").relative_to(folder), folder)
    assert (content.whole, content.text()) == (True, "fine")


def test_of_a_huge_file_only_the_beginning_and_the_end_are_read(folder, monkeypatch):
    with (folder / "huge.log").open("wb") as file:
        file.write(b"first line\n")
        file.seek(100 * 2**20)
        file.write(b"last line\n")
    reads = list[int]()
    pread = os.pread

    def noted(file: int, size: int, start: int) -> bytes:
        reads.append(size)
        return pread(file, size, start)

    monkeypatch.setattr(os, "pread", noted)
    content = read_bounded(folder / "huge.log", folder, 4_000)
    assert reads == [3_000, 1_000]
    assert content.head.startswith(b"first line\n")
    assert content.tail.endswith(b"last line\n")
    assert content.size == 100 * 2**20 + 10
    assert f"… {content.size - 4_000:,} bytes are left out here …" in content.text()
    assert not content.whole


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("../secret.txt", "without `..`"),
        ("logs/../../secret.txt", "without `..`"),
        ("/etc/passwd", "it is not below"),
        (".", "expected the path of a file"),
        ("link.txt", "it is a link"),
        ("own-link.txt", "it is a link"),
        ("away/secret.txt", "links are not followed"),
        ("pipe", "no plain file"),
        ("logs", "no plain file"),
        ("logs/out.txt/more", "no folder"),
        ("missing", "there is no such file"),
        ("nul\0", "its name is none that a file can have"),
        ("x" * 300, "a name so long"),
        ("\udcff", "there is no such file"),
    ],
)
def test_whatever_leads_elsewhere_is_refused(folder, path, reason):
    with pytest.raises(StoreError, match=r"cannot be read") as caught:
        read_bounded(Path(path), folder)
    assert reason in str(caught.value)


def test_devices_are_refused():
    with pytest.raises(StoreError, match="no plain file"):
        read_bounded(Path("null"), Path("/dev"))


def test_no_descriptor_stays_open(folder):
    before = set(os.listdir("/proc/self/fd"))
    for path in ("logs/out.txt", "link.txt", "away/secret.txt", "pipe", "logs", "missing"):
        try:
            read_bounded(folder / path, folder)
        except StoreError:
            continue
    assert set(os.listdir("/proc/self/fd")) == before


def test_bytes_in_memory_are_bounded_like_files():
    assert bounded(b"0123456789", 8) == BoundedContent(b"012345", b"89", 10)
    assert bounded(b"0123456789", 10).whole
