"""Which kind a file is, by its first bytes and else by its name, and how its bytes are handed to a browser.

Also the two forms that every format falls back to: plain text, and a table. `documents` and `archives` have the others.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

import markupsafe
from markupsafe import Markup

from seatrial.report.text import harmless_lines
from seatrial.untrusted.files import BoundedContent

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


# The bytes of a file as a browser gets them: one of few media types, with what it may do with them.

_TEXT, _BYTES, _PDF = "text/plain; charset=utf-8", "application/octet-stream", "application/pdf"
_TYPES = {
    "pdf": _PDF,
    "svg": "image/svg+xml",
    "html": "text/html; charset=utf-8",
    "zip": _BYTES,
    "tar": _BYTES,
    "binary": _BYTES,
}
_NOTHING = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'"
# A browser's own viewer of documents does not work in a sandbox; scripts of a page have no place in what it shows.
_POLICIES = {_PDF: f"{_NOTHING}; object-src 'self'"}
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")


def raw_type(name: str, head: bytes) -> str:
    """The media type of a file that begins with these bytes."""
    kind = find_kind(name, BoundedContent(head, b"", len(head)))
    return image_type(head) or _TYPES.get(kind, _TEXT)


def raw_headers(name: str, head: bytes) -> dict[str, str]:
    """All headers of the file's bytes, whatever they are: in no browser can they run or fetch anything."""
    kind = raw_type(name, head)
    shown = "attachment" if kind == _BYTES else "inline"
    return {
        "Content-Type": kind,
        "Content-Security-Policy": _POLICIES.get(kind, f"sandbox; {_NOTHING}"),
        "Content-Disposition": f'{shown}; filename="{safe_name(name)}"',
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
        "Accept-Ranges": "bytes",
    }


def safe_name(name: str) -> str:
    """A name that every file system takes and no header stumbles over."""
    return _UNFIT.sub("_", PurePosixPath(name).name)[-100:].lstrip(".") or "file"


@dataclass(frozen=True, slots=True)
class RawAddress:
    """The address of a file's bytes.

    A viewer that runs serves them so that they can do no harm; in an export, only pictures made of pixels can do none.
    """

    href: str
    kind: Literal["served", "exported"] = "served"


# What other formats are shown with: plain text without what steers terminals, and a table that scrolls by itself.

# Colours and cursors, titles and links up to their end. All other text stays: nobody is to hide any from a reader.
_STEERING = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\](?:0|1|2|8;[^;\x07\x1b]*);[^\x07\x1b]*(?:\x07|\x1b\\)")


def clean(text: str) -> str:
    """Text without the colours of terminals and what steers them; what a line rewrote is still there."""
    return "\n".join(harmless_lines(_STEERING.sub("", text)))


def show_text(text: str) -> markupsafe.Markup:
    return markupsafe.Markup('<pre class="text">{}</pre>').format(clean(text))


_FRAME = Markup(
    '<div class="scroll" tabindex="0" role="region" aria-label="{}"><table class="rows">'
    "<thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>"
)
_HEADER, _CELL = Markup('<th scope="col">{}</th>'), Markup("<td>{}</td>")


def scrolling_table(label: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    """Cells of text under a header. A row with more or fewer cells than that is marked."""
    heads = Markup().join(_HEADER.format(each) for each in header)
    return _FRAME.format(label, heads, Markup().join(_row(row, len(header)) for row in rows))


def _row(row: Sequence[str], expected: int) -> Markup:
    cells = Markup().join(_CELL.format(each) for each in row)
    return (Markup("<tr>{}</tr>") if len(row) == expected else Markup('<tr class="odd">{}</tr>')).format(cells)
