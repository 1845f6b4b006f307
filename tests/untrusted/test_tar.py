"""Headers on which the library's reader would be busy for hours, with every other thread waiting for it."""

import io
import tarfile
import time

import pytest

from seatrial.untrusted.tar import CheckedEntry

SOON = 2.0  # seconds: without a check, each of these takes ten times as long at least


def archive_with(kind: bytes, header: bytes) -> bytes:
    """An archive of one file, with an extended header before it."""
    extended = tarfile.TarInfo("header")
    extended.type, extended.size = kind, len(header)
    padding = b"\0" * (-len(header) % tarfile.BLOCKSIZE)
    return extended.tobuf() + header + padding + tarfile.TarInfo("file").tobuf() + b"\0" * 1024


def names_in(content: bytes, mode: str) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(content), mode=mode, tarinfo=CheckedEntry) as archive:  # type: ignore[call-overload]
        return [member.name for member in archive]


@pytest.mark.parametrize("mode", ["r:", "r|"])
@pytest.mark.parametrize("layout", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_long_names_are_read_as_ever(mode, layout):
    names = [f"{'folder/' * 40}{number}-ü" for number in range(3)]
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=layout) as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(name))
    assert names_in(made.getvalue(), mode) == names


@pytest.mark.parametrize("mode", ["r:", "r|"])
@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE])
@pytest.mark.parametrize("header", [b"1" * 2**16, b"30 comment=aaaaaaaaaaaaaaaaaaa\n" * 2**12])
def test_headers_that_nobody_needs_are_refused_at_once(mode, kind, header):
    began = time.monotonic()
    with pytest.raises(tarfile.ReadError, match="a header has"):
        names_in(archive_with(kind, header), mode)
    assert time.monotonic() - began < SOON
