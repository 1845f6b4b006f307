"""What the beginning of an index amounts to, so that nobody has to read it line by line again.

One signature, with the key of this user, is over that beginning and what it amounts to: where a byte of either is
another, or a line was taken out, it says nothing and every line is read. Lines that are added later are read as ever.
"""

import hashlib
import hmac
import marshal
import sys
from collections.abc import Iterator
from typing import Any

_SIGNATURE, _LENGTH = 16, 8
_AT_ONCE = 1_000
"""So many values are read at a time: memory that is used again is faster than memory that is new."""

_FORMAT = f"{sys.implementation.cache_tag} {marshal.version}".encode()
"""No other Python needs to understand it: it is signed for this one."""


def make_checkpoint(signing: "hashlib.blake2b", beginning: bytes, values: list[Any]) -> bytes:
    """A checkpoint for an index that begins like this; `values` are plain ones, such as tuples and texts."""
    some = (marshal.dumps(values[at : at + _AT_ONCE]) for at in range(0, len(values), _AT_ONCE))
    parts = (part for each in some for part in (len(each).to_bytes(_LENGTH), each))
    body = b"".join((len(beginning).to_bytes(_LENGTH), *parts))
    return _sign(signing, memoryview(beginning), memoryview(body)) + body


def read_checkpoint(signing: "hashlib.blake2b", checkpoint: bytes, index: bytes) -> tuple[int, Iterator[Any]] | None:
    """How many bytes of an index a checkpoint is about, and its values; None if it is not about this index."""
    body = memoryview(checkpoint)[_SIGNATURE:]
    length = int.from_bytes(body[:_LENGTH])
    if len(body) < _LENGTH or length > len(index):
        return None
    if not hmac.compare_digest(checkpoint[:_SIGNATURE], _sign(signing, memoryview(index)[:length], body)):
        return None
    return length, _values(body[_LENGTH:])


def _values(body: memoryview) -> Iterator[Any]:
    while body:
        end = _LENGTH + int.from_bytes(body[:_LENGTH])
        yield from marshal.loads(body[_LENGTH:end])  # noqa: S302 - it is as this user wrote it
        body = body[end:]


def _sign(signing: "hashlib.blake2b", beginning: memoryview, body: memoryview) -> bytes:
    signed = signing.copy()
    for part in (_FORMAT, body[:_LENGTH], beginning, body[_LENGTH:]):
        signed.update(part)
    return signed.digest()
