"""Where this user's home directory is, for what is kept from one run to the next; never made where there is none."""

from pathlib import Path

from seatrial.errors import HostUnsupportedError


def home_directory() -> Path:
    """The home directory. Raises HostUnsupportedError unless it is an absolute path that leads to a directory."""
    try:
        home = Path.home()
    except RuntimeError:
        raise HostUnsupportedError("this user has no home directory; set HOME to a directory of your own") from None
    if not home.is_absolute() or not home.is_dir():
        raise HostUnsupportedError(
            f"the home directory is {str(home)!r} (HOME), expected the absolute path of a directory that is there; "
            "set HOME to one of your own"
        )
    return home
