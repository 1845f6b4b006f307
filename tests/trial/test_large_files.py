"""Large files of end states: in and out of files of their own, unharmed, and none that a stranger put there."""

import io
import tarfile
import tempfile
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.errors import ContentError
from seatrial.trial.large_files import LARGE, KeepRoom, keep_apart, put_together


def archive_of(**files: bytes) -> io.BytesIO:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.uid, member.mtime = len(content), 7, 1_000_000
            tar.addfile(member, io.BytesIO(content))
    buffer.seek(0)
    return buffer


def take_apart(archive: io.BytesIO, folder: Path) -> bytes:
    packed = io.BytesIO()
    with zstandard.ZstdCompressor().stream_writer(packed, closefd=False) as writer:
        keep_apart(archive, writer, folder, KeepRoom(2**30))
    return packed.getvalue()


def join(packed: bytes, folder: Path, left: int = 2**30) -> io.BytesIO:
    plain = io.BytesIO()
    with (
        zstandard.open(io.BytesIO(packed), "rb") as stream,
        tarfile.open(fileobj=stream, mode="r|") as source,
        tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as target,
    ):
        for member in source:
            put_together(member, source, target, folder, left - target.offset)
    return plain


@settings(max_examples=20, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from("abcd"), st.tuples(st.binary(min_size=1, max_size=9), st.integers(0, 2)), min_size=1
    )
)
def test_whatever_is_taken_apart_is_put_together_again(parts):
    files = {name: content * (LARGE * kind // len(content) + 1) for name, (content, kind) in parts.items()}
    whole = archive_of(**files)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "files"
        packed = take_apart(whole, folder)
        large = {content for content in files.values() if len(content) >= LARGE}
        assert len(list(folder.iterdir()) if folder.exists() else []) == len(large)
        assert join(packed, folder).getvalue() == whole.getvalue()


def one_large(folder: Path) -> tuple[bytes, Path]:
    packed = take_apart(archive_of(large=bytes(LARGE)), folder)
    (path,) = folder.iterdir()
    return packed, path


def test_another_content_is_not_taken_for_it(tmp_path):
    packed, path = one_large(tmp_path)
    path.write_bytes(zstandard.compress(b"\1" * LARGE))
    with pytest.raises(ContentError, match="its content is another than its name says"):
        join(packed, tmp_path)


def test_more_than_there_is_room_for_is_not_unpacked(tmp_path):
    packed, _ = one_large(tmp_path)
    with pytest.raises(ContentError, match="no room"):
        join(packed, tmp_path, left=LARGE - 1)


@pytest.mark.parametrize("named", ["../../etc/passwd", "a" * 63 + "/", "A" * 64])
def test_a_name_that_is_no_digest_leads_nowhere(tmp_path, named):
    member = tarfile.TarInfo("large")
    member.pax_headers = {"SEATRIAL.content": named, "SEATRIAL.size": "1"}
    with tarfile.open(fileobj=io.BytesIO(), mode="w") as tar, pytest.raises(ContentError, match="no such content"):
        put_together(member, tar, tar, tmp_path, 2**30)
