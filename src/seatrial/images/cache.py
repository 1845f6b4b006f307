"""Where the images of a user are kept, and how the progress of an image on its way there is reported."""

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from seatrial.errors import HostUnsupportedError
from seatrial.home import home_directory


def cache_root() -> Path:
    """Where the store is: $SEATRIAL_CACHE, else `seatrial` in the user's cache directory.

    Raises HostUnsupportedError when none of them says where. A relative $XDG_CACHE_HOME does not count, as its
    specification has it.
    """
    if chosen := os.environ.get("SEATRIAL_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(base) if base.startswith("/") else home_directory() / ".cache") / "seatrial"
    except HostUnsupportedError as error:
        raise HostUnsupportedError(f"{error}, or SEATRIAL_CACHE to a directory for images") from None


def usable(root: Path) -> Path:
    """A directory for a store, made if needed. Raises HostUnsupportedError for one that cannot be used."""
    # Not for others: it holds programs that are setuid root.
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE):  # of the machine, for the moment
            raise
        raise HostUnsupportedError(
            f"{root}, the place for images, cannot be made: {error.strerror}; set SEATRIAL_CACHE to a directory of "
            "your own"
        ) from error
    root = root.resolve()
    status = root.stat()
    if status.st_uid != os.geteuid() or any(character in str(root) for character in ":,\\"):
        raise HostUnsupportedError(
            f"{root} belongs to somebody else or has a character that overlay mounts cannot take (colon, comma, "
            "backslash); set SEATRIAL_CACHE to a directory of your own"
        )
    if status.st_mode & 0o077:
        root.chmod(0o700)
    return root


LayerState = Literal["present", "waiting", "fetching", "unpacking", "ready"]


@dataclass(frozen=True, slots=True)
class LayerProgress:
    """How far a layer is: bytes done of bytes in all, of its archive as it comes; 0 in all when not known."""

    image: str
    layer: str
    state: LayerState
    done: int = 0
    total: int = 0
