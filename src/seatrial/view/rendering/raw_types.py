"""How the bytes of a stranger's file are handed to a browser: as one of few types, with what it may do with them."""

import re
from pathlib import PurePosixPath

from seatrial.view.rendering.bounded import BoundedContent
from seatrial.view.rendering.kinds import find_kind, image_type

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
