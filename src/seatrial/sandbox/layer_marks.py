"""How an archive of a layer says what tar has no words for: that something is gone, and a file's own attributes."""

import tarfile

from seatrial.errors import TooLargeError
from seatrial.sandbox.overlay import OPAQUE_MARKS

XATTR = "SCHILY.xattr."
_OWNER = "SEATRIAL.owner"
_HEADER_BYTES = 512
_BYTES_PER_ENTRY, _ALWAYS_ENTRIES = 6144, 1024  # to pack an entry takes 0.1 ms, as long as so much content


def gone_mark(name: str) -> tarfile.TarInfo:
    """A member that stands for something which is not there any more, as overlayfs marks it."""
    member = tarfile.TarInfo(name)
    member.type, member.devmajor, member.devminor = tarfile.CHRTYPE, 0, 0
    return member


def is_gone_mark(member: tarfile.TarInfo) -> bool:
    """Whether a member stands for something that was removed."""
    return member.ischr() and (member.devmajor, member.devminor) == (0, 0)


def is_made_anew(member: tarfile.TarInfo) -> bool:
    """Whether a member is a directory that was removed and then made anew."""
    return member.isdir() and any(member.pax_headers.get(f"{XATTR}{name}") == "y" for name in OPAQUE_MARKS)


def attributes_of(member: tarfile.TarInfo) -> dict[str, bytes]:
    """The attributes that a file is to have, those of users alone."""
    return {
        key.removeprefix(XATTR): value.encode("utf-8", "surrogateescape")
        for key, value in member.pax_headers.items()
        if key.startswith(f"{XATTR}user.") and ".overlay." not in key
    }


def of_unknown_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """A directory of which nobody knows whom it belongs to: where it is laid out, its owner stays."""
    member.pax_headers = {**member.pax_headers, _OWNER: "unknown"}
    return member


def knows_owner(member: tarfile.TarInfo) -> bool:
    """Whether the owner in a member is one."""
    return _OWNER not in member.pax_headers


def refuse_large(contents: int, entries: int, limit: int) -> None:
    """Raise TooLargeError for a layer of more bytes than a limit, or of more entries than go with that."""
    size = contents + _HEADER_BYTES * entries
    if size > limit:
        raise TooLargeError(f"what differs from the image has {size:,} bytes, and the limit is {limit:,}")
    most = max(_ALWAYS_ENTRIES, limit // _BYTES_PER_ENTRY)
    if entries > most:
        raise TooLargeError(f"{entries:,} files and directories differ from the image, and the limit is {most:,}")
