"""Files of strangers: plain ones only, bounded, each fault with its file and line."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import ValidationError

from seatrial.errors import ImportSourceError
from seatrial.integrations.foreign import ForeignTrial, Skipped
from seatrial.model.base import check_json_object
from seatrial.store.files import check_plain, read_plain

MOST_BYTES_OF_FILE = 256 * 2**20
MOST_BYTES_OF_LINE = 64 * 2**20
MOST_BYTES_OF_LINES = 2**40
_BLOCK = 2**20
_SURE_DIGITS, _MOST_DIGITS = 19, 20


class SourceFault(ValueError):
    """What was found is not what should be there; the message says both."""


def read_object(path: Path, name: str) -> tuple[dict[str, Any], str]:
    """The JSON object in a file, and the file's digest. Raises SourceFault, which calls the file `name`."""
    try:
        content = read_plain(path, MOST_BYTES_OF_FILE)
    except OSError as error:
        raise SourceFault(f"{name}: cannot be read: {error.strerror or error}") from None
    try:
        return parse_object(content), hashlib.sha256(content).hexdigest()
    except SourceFault as error:
        raise SourceFault(f"{name}: {error}") from None


def parse_object(content: bytes) -> dict[str, Any]:
    """A JSON object whose values can be stored. Raises SourceFault.

    NaN and infinities, which Python writes and JSON does not have, are read as null. Whole numbers of more than 64
    bits, which no file of ours holds, are read as text.
    """
    try:
        value = json.loads(content, parse_constant=_no_number, parse_int=_whole_number)
    except RecursionError:
        raise SourceFault("is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise SourceFault(f"is not UTF-8 text: {error.reason} at byte {error.start}") from None
    except ValueError as error:
        raise SourceFault(f"is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise SourceFault(f"holds a {type(value).__name__}, expected an object")
    try:
        return check_json_object(value)
    except ValueError as error:
        raise SourceFault(f"has a value that cannot be stored: {error}") from None


def _no_number(_: str) -> None:
    return None


def _whole_number(digits: str) -> int | str:
    if len(digits) < _SURE_DIGITS:
        return int(digits)
    return int(digits) if len(digits) <= _MOST_DIGITS and -(2**63) <= int(digits) < 2**64 else digits


def storable(make: Callable[[], ForeignTrial], place: str) -> ForeignTrial | Skipped:
    """A trial, or why what was found cannot be kept as one."""
    try:
        return make()
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        return Skipped(place, f"has a value that cannot be stored: {field}: {first['msg']}")


def open_lines(path: Path) -> BinaryIO:
    """A plain file to read lines of. Raises ImportSourceError."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        opened = os.fdopen(file, "rb")
        try:
            check_plain(file, MOST_BYTES_OF_LINES)
        except OSError:
            opened.close()
            raise
    except OSError as error:
        raise ImportSourceError(f"{path}: cannot be read: {error.strerror or error}") from error
    return opened


def digest_of(path: Path) -> str:
    """The SHA-256 of a file of any length. Raises ImportSourceError."""
    digest = hashlib.sha256()
    with open_lines(path) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def numbered_lines(path: Path, sha256: str) -> Iterator[tuple[int, bytes | None]]:
    """The lines of a file with their numbers, without those that are blank; None for one that is too long to be read.

    Raises ImportSourceError at the end if the file is not the one that has this digest.
    """
    digest = hashlib.sha256()
    with open_lines(path) as file:
        number = 0
        while line := file.readline(MOST_BYTES_OF_LINE):
            number += 1
            digest.update(line)
            whole: bytes | None = line
            while not line.endswith(b"\n") and (line := file.readline(_BLOCK)):
                digest.update(line)
                whole = None
            if whole is None or whole.strip():
                yield number, whole
    if digest.hexdigest() != sha256:
        raise ImportSourceError(f"{path}: was changed while it was read; import it when nobody writes to it")
