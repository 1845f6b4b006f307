"""Of which kind a file is: by the bytes that it begins with, and where these say nothing, by its name."""

from pathlib import PurePosixPath
from typing import Literal

from seatrial.view.rendering.bounded import BoundedContent

Kind = Literal[
    "text", "json", "jsonl", "csv", "tsv", "markdown", "code", "notebook", "html", "svg",
    "image", "pdf", "zip", "tar", "binary",
]  # fmt: skip

IMAGE_TYPES = {"png": "image/png", "jpeg": "image/jpeg", "gif": "image/gif", "webp": "image/webp"}
_BY_SUFFIX: dict[str, Kind] = {
    ".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".tsv": "tsv", ".md": "markdown",
    ".markdown": "markdown", ".ipynb": "notebook", ".html": "html", ".htm": "html", ".xhtml": "html", ".svg": "svg",
    ".txt": "text", ".log": "text", ".out": "text", ".err": "text",
}  # fmt: skip
_ARCHIVE_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst", ".tzst")
_LOOKED_AT = 2**13


def find_kind(name: str, content: BoundedContent) -> Kind:
    """The kind by which a file is shown."""
    if found := _kind_by_bytes(name, content.head):
        return found
    if _is_binary(content):
        return "binary"
    suffix = PurePosixPath(name).suffix.lower()
    if found := _BY_SUFFIX.get(suffix):
        return found
    return "code" if suffix or PurePosixPath(name).name in ("Makefile", "Dockerfile") else "text"


def image_type(head: bytes) -> str | None:
    """The media type of a picture made of pixels, None for anything else. A browser is told this and nothing more."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return IMAGE_TYPES["png"]
    if head.startswith(b"\xff\xd8\xff"):
        return IMAGE_TYPES["jpeg"]
    if head.startswith((b"GIF87a", b"GIF89a")):
        return IMAGE_TYPES["gif"]
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return IMAGE_TYPES["webp"]
    return None


def _kind_by_bytes(name: str, head: bytes) -> Kind | None:
    if image_type(head):
        return "image"
    if b"%PDF-" in head[:1024]:
        return "pdf"
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "zip"
    if head[257:262] == b"ustar" or name.lower().endswith(_ARCHIVE_SUFFIXES):
        return "tar"
    return None


def _is_binary(content: BoundedContent) -> bool:
    """Whether hardly anybody would call it text: it has a NUL, or much of it is not UTF-8."""
    begin = content.head[:_LOOKED_AT]
    if b"\0" in begin:
        return True
    odd = begin.decode("utf-8", "replace").count("\ufffd")
    return odd > 4 and odd * 20 > len(begin)
