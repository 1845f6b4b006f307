import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.view.content import raw_headers, raw_type, safe_name

ALLOWED = {
    "application/octet-stream", "application/pdf", "image/gif", "image/jpeg", "image/png", "image/svg+xml",
    "image/webp", "text/html; charset=utf-8", "text/plain; charset=utf-8",
}  # fmt: skip


@given(st.text(), st.binary(max_size=300))
def test_headers_are_safe_whatever_the_name_and_the_bytes(name, head):
    headers = raw_headers(name, head)
    assert headers["Content-Type"] in ALLOWED
    assert re.fullmatch(r'(inline|attachment); filename="[A-Za-z0-9._-]{1,100}"', headers["Content-Disposition"])
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert policy.startswith("sandbox;") == (headers["Content-Type"] != "application/pdf")


@pytest.mark.parametrize(
    ("name", "head", "kind"),
    [
        ("a.svg", b"<svg/>", "image/svg+xml"),
        ("a.svg", b"\0", "application/octet-stream"),
        ("a.html", b"%PDF-1.4", "application/pdf"),
        ("a.txt", b"GIF89a", "image/gif"),
        ("a.png", b"<html>", "text/plain; charset=utf-8"),
        ("a.js", b"alert(1)", "text/plain; charset=utf-8"),
        ("a.webp", b"RIFF\0\0\0\0WEBP", "image/webp"),
        ("a.jpg", b"\xff\xd8\xff\xe0", "image/jpeg"),
    ],
)
def test_bytes_count_for_more_than_names(name, head, kind):
    assert raw_type(name, head) == kind


def test_names_lose_folders_dots_and_oddities():
    assert [safe_name(name) for name in ("a/b.txt", "..", ".bashrc", 'x"\r\ny')] == ["b.txt", "file", "bashrc", "x_y"]
