"""Whether a job is this user's own: a seal beside job.json that nobody else can have made.

A job.json says on which backend commands run, where model calls go with the user's key, and which folders are used. In
a folder from elsewhere these are a stranger's words. A seal is a digest of that file with a key that only this user
has, so a job that was moved or copied here stays one's own, and one that was written or changed by others does not.
"""

import hashlib
import hmac
import os
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from seatrial.errors import HostUnsupportedError
from seatrial.home import home_directory
from seatrial.store.files import create_file, write_all
from seatrial.untrusted.files import CREATE, read_file, read_with_status

SEAL = "job.seal"
_KEY = "seal.key"
_KEY_BYTES = 32
_MAX_SEALS = 2**20


def add_seal(folder: Path, content: bytes) -> None:
    """Seal a job's folder for this content of job.json; seals of what it was before stay. Raises OSError."""
    line = f"{_digest(_own_key(), content)}\n".encode()
    file = os.open(folder / SEAL, os.O_WRONLY | os.O_APPEND | CREATE, 0o666)
    try:
        write_all(file, line)
        os.fsync(file)
    finally:
        os.close(file)


def has_seal(folder: Path, content: bytes) -> bool:
    """Whether this user has sealed a job's folder with this content of job.json."""
    try:
        expected = _digest(_read_key(key_path()), content).encode()
        seals = read_file(folder / SEAL, _MAX_SEALS)
    except OSError:
        return False
    return any(hmac.compare_digest(seal, expected) for seal in seals.splitlines())


def key_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the key of this user is: below $XDG_STATE_HOME, else ~/.local/state. Raises OSError without a home."""
    base = environ.get("XDG_STATE_HOME", "")
    if base.startswith("/"):
        return Path(base, "seatrial", _KEY)
    try:
        return home_directory() / ".local/state/seatrial" / _KEY
    except HostUnsupportedError as error:
        raise FileNotFoundError(str(error)) from error


def _digest(key: bytes, content: bytes) -> str:
    return hmac.new(key, content, hashlib.sha256).hexdigest()


def _own_key() -> bytes:
    """The key, made now if there is none yet."""
    path = key_path()
    with suppress(FileNotFoundError):
        return _read_key(path)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{_KEY}.{secrets.token_hex(8)}")
    create_file(str(draft), secrets.token_bytes(_KEY_BYTES), mode=0o600)
    try:
        # Whole or not at all, and the first one stays: another process may be at it too.
        with suppress(FileExistsError):
            path.hardlink_to(draft)
    finally:
        draft.unlink()
    return _read_key(path)


def _read_key(path: Path) -> bytes:
    key, status = read_with_status(path, _MAX_SEALS)
    if stat.S_IMODE(status.st_mode) & 0o077 or status.st_uid != os.geteuid():
        raise PermissionError(f"{path}: others than this user may have it; remove it, and the next job makes a new one")
    if len(key) != _KEY_BYTES:
        raise PermissionError(
            f"{path}: expected a key of {_KEY_BYTES} bytes; remove it, and the next job makes a new one"
        )
    return key
