"""Files of strangers: none of them makes anybody wait, swells, or leads elsewhere."""

import errno
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.errors import StoreError
from seatrial.untrusted.files import (
    BoundedContent,
    FileTooLargeError,
    bounded,
    open_file,
    read_below,
    read_bounded,
    read_end,
    read_file,
)


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
        ("pipe", "not a regular file"),
        ("logs", "not a regular file"),
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
    with pytest.raises(StoreError, match="not a regular file"):
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


@given(content=st.binary(max_size=300), limit=st.integers(0, 300))
def test_a_file_is_read_as_a_whole_or_refused_by_its_size(tmp_path_factory, content, limit):
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(content)
    if len(content) <= limit:
        assert read_file(path, limit) == content
        assert read_below(path, path.parent, limit) == content
    else:
        with pytest.raises(FileTooLargeError, match=f"it has {len(content)} bytes, expected {limit} at most") as caught:
            read_file(path, limit)
        assert caught.value.size == len(content)
        with pytest.raises(StoreError, match=f"expected {limit} at most"):
            read_below(path, path.parent, limit)
    assert read_end(path, limit) == content[max(0, len(content) - limit) :]
    both = read_bounded(path, path.parent, limit)
    assert (both.whole, len(both.head) + len(both.tail)) == (len(content) <= limit, min(limit, len(content)))


def test_a_file_longer_than_one_read_is_read_to_its_end():
    maps = read_file("/proc/self/maps", 2**24)  # its size is said to be 0, and a read gives a page of it at most
    assert maps.endswith(b"\n")
    assert len(maps) > 4096


def test_a_file_that_grows_while_it_is_read_is_refused():
    with pytest.raises(FileTooLargeError):
        read_file("/proc/self/status", 8)


@pytest.mark.parametrize("read", [lambda path: read_file(path, 8), open_file])
@pytest.mark.parametrize(
    ("kind", "number"),
    [(stat.S_IFIFO, errno.ENXIO), (stat.S_IFSOCK, errno.ENXIO), (stat.S_IFDIR, errno.EISDIR), (0, errno.ELOOP)],
    ids=["pipe", "socket", "folder", "link"],
)
def test_what_is_not_a_regular_file_is_told_apart_without_waiting(tmp_path, read, kind, number):
    path = tmp_path / "odd"
    if kind == stat.S_IFDIR:
        path.mkdir()
    elif kind:
        os.mknod(path, kind | 0o600)
    else:
        path.symlink_to("/etc/hostname")
    with pytest.raises(OSError) as caught:  # noqa: PT011 - its number is compared
        read(path)
    assert caught.value.errno == number


def test_a_sparse_file_is_refused_by_its_size_alone(tmp_path):
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(50 * 2**30)
    with pytest.raises(FileTooLargeError), open_file(tmp_path / "sparse", 2**30):
        pass
