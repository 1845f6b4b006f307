"""The name by which the loader knows a library, whatever its file is called. The files are untrusted."""

import re
import struct
from collections.abc import Iterator
from itertools import takewhile
from typing import BinaryIO

# Where the loader looks by itself, and ldconfig for what it is to find.
_SEARCHED = re.compile(
    r"(?:/usr(?:/local)?)?/lib(?:32|64|x32)?(?:/\w+-linux-\w+)?(?:/glibc-hwcaps/[\w-]+)?/[^/]*\.so[^/]*"
)
UNKNOWN = "?"
"""The name of a library that cannot be read within the bounds."""

_DYNAMIC, _LOAD = 2, 1
_STRINGS, _SONAME = 5, 14
_MOST_HEADERS = 256
_MOST_ENTRIES = 4096
_LONGEST = 4096
# By whether a file is of 64 bits: header without its first 16 bytes, program header, entry of the dynamic section.
_SHAPES = {True: ("HHIQQQIHHH", "IIQQQQQQ", "qQ"), False: ("HHIIIIIHHH", "IIIIIIII", "iI")}


def is_searched(path: str) -> bool:
    """Whether a file is where the loader of an image finds libraries."""
    return _SEARCHED.fullmatch(path) is not None


def read_soname(file: BinaryIO) -> str:
    """The soname of a library; empty for what is none or has none."""
    ident = file.read(16)
    if len(ident) < 16 or ident[:4] != b"\x7fELF":
        return ""
    try:
        return _read(file, is_64=ident[4] == 2, order=">" if ident[5] == 2 else "<")
    except (struct.error, OverflowError, ValueError, OSError):
        return UNKNOWN


def _read(file: BinaryIO, *, is_64: bool, order: str) -> str:
    header, segment, entry = (order + shape for shape in _SHAPES[is_64])
    _, _, _, _, start, _, _, _, size, count = struct.unpack(header, file.read(struct.calcsize(header)))
    if count > _MOST_HEADERS or (count and size != struct.calcsize(segment)):
        return UNKNOWN
    file.seek(start)
    segments = [_Segment(fields, is_64=is_64) for fields in _unpacked(file, segment, count)]
    dynamics = [each for each in segments if each.kind == _DYNAMIC]
    if len(dynamics) != 1:
        return UNKNOWN if dynamics else ""
    file.seek(dynamics[0].offset)
    entries = list(takewhile(lambda fields: fields[0], _unpacked(file, entry, _MOST_ENTRIES)))
    names, tables = ([value for tag, value in entries if tag == wanted] for wanted in (_SONAME, _STRINGS))
    if not names and len(entries) < _MOST_ENTRIES:
        return ""
    is_plain = len(names) == len(tables) == 1 and len(entries) < _MOST_ENTRIES
    loads = [each for each in segments if each.kind == _LOAD]
    holders = [each for each in loads if tables and each.holds(tables[0])]
    # Programs that look for the table in another segment, or take another entry, are to find the same.
    if not is_plain or not holders or holders[0] is not loads[0]:
        return UNKNOWN
    file.seek(holders[0].offset + tables[0] - holders[0].address + names[0])
    name, end, _ = file.read(_LONGEST).partition(b"\0")
    return name.decode("utf-8", "replace") if end else UNKNOWN


class _Segment:
    def __init__(self, fields: tuple[int, ...], *, is_64: bool) -> None:
        self.kind = fields[0]
        self.offset, self.address, self.size = (
            (fields[2], fields[3], fields[5]) if is_64 else (fields[1], fields[2], fields[4])
        )

    def holds(self, address: int) -> bool:
        return self.address <= address < self.address + self.size


def _unpacked(file: BinaryIO, shape: str, count: int) -> Iterator[tuple[int, ...]]:
    for _ in range(count):
        yield struct.unpack(shape, file.read(struct.calcsize(shape)))
