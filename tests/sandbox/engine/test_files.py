"""Archives for an engine: what is refused before it sees them, and what is left out of those it packs."""

import io
import os
import tarfile
import tempfile
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.errors import SandboxError, TooLargeError
from seatrial.sandbox.archives import closing, unpack
from seatrial.sandbox.engine import files
from seatrial.testing.contract_base import member


def packed(*members: tuple[tarfile.TarInfo, bytes]) -> io.BytesIO:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for info, content in members:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    buffer.seek(0)
    return buffer


def names(archive: io.BytesIO) -> list[str]:
    archive.seek(0)
    with tarfile.open(fileobj=archive) as tar:
        return tar.getnames()


_NAMES = st.sampled_from(["a", "b", "a/b", "a/b/c", "./a", "/a", "../a", "a/../b", "", ".", "link", "link/x"])
_KINDS = st.sampled_from([tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, b"3"])


def refusal(work: Callable[[], object]) -> str | None:
    try:
        work()
    except SandboxError as error:
        return str(error)
    return None


@given(st.lists(st.tuples(_NAMES, _KINDS, _NAMES), max_size=6))
def test_what_our_own_unpacking_takes_is_taken_and_nothing_it_refuses_by_name_or_kind(entries):
    members = [member(name, kind=kind, link=link) for name, kind, link in entries]
    here = refusal(lambda: files.examine(packed(*members)))
    with tempfile.TemporaryDirectory() as folder, closing(os.open(folder, os.O_RDONLY)) as target:
        there = refusal(lambda: unpack(packed(*members), target))
    assert there or here is None
    assert here or not any(word in (there or "") for word in ("refused", "only files", "hard link"))


@given(st.binary(max_size=2000))
def test_what_is_no_archive_is_refused(data):
    said = refusal(lambda: files.examine(io.BytesIO(data)))
    assert said is None or "archive" in said


def test_folders_that_are_there_are_left_out_and_missing_ones_made():
    archive = packed(
        member(".", kind=tarfile.DIRTYPE),
        member("old", kind=tarfile.DIRTYPE),
        member("old/f", b"x"),
        member("new/g", b"y"),
        member("hard", kind=tarfile.LNKTYPE, link="old/f"),
    )
    contents = files.examine(archive)
    assert set(contents.folders) == {(), ("old",), ("new",)}
    target = io.BytesIO()
    files.rewrite(archive, target, ("app", "deep"), {(), ("old",)})
    assert names(target) == ["app", "app/deep", "app/deep/old/f", "app/deep/new/g", "app/deep/hard"]
    target.seek(0)
    with tarfile.open(fileobj=target) as tar:
        assert tar.getmember("app/deep/hard").linkname == "app/deep/old/f"


def test_what_an_engine_packs_becomes_what_a_sandbox_gives():
    raw = packed(
        member("top", kind=tarfile.DIRTYPE),
        member("top/f", b"content"),
        member("top/p", kind=tarfile.FIFOTYPE),
        member("top/hard", kind=tarfile.LNKTYPE, link="top/f"),
        member("top/l", kind=tarfile.SYMTYPE, link="f"),
        member("top/dev", kind=tarfile.CHRTYPE),
        member("top/sub/g", b"x"),
    )
    target = io.BytesIO()
    files.select(raw, target, "/some/top", 10_000)
    assert names(target) == [".", "f", "hard", "l", "sub/g"]
    target.seek(0)
    with tarfile.open(fileobj=target) as tar:
        hard = tar.extractfile("hard")
        assert tar.getmember("hard").isreg()
        assert hard is not None
        assert hard.read() == b"content"


def test_one_file_has_its_own_name_and_the_limit_counts_content():
    files.select(packed(member("f", b"12345")), target := io.BytesIO(), "/a/f", 5)
    assert names(target) == ["f"]
    with pytest.raises(TooLargeError, match="4 bytes"):
        files.select(packed(member("f", b"12345")), io.BytesIO(), "/a/f", 4)


def test_many_small_files_are_too_much_as_well():
    members = [member("d", kind=tarfile.DIRTYPE), *(member(f"d/{number}") for number in range(10))]
    with pytest.raises(TooLargeError):
        files.select(packed(*members), io.BytesIO(), "/d", 4999)
