"""Headers of a stranger's tar archive, checked before the standard library reads them.

On some it takes a time that grows with the square of their length, in one step during which no other thread goes on
(CVE-2024-6232, up to 3.11.9 and 3.12.5).
"""

import re
import tarfile
from typing import Any

_EXTENDED = frozenset(
    {
        tarfile.XHDTYPE,
        tarfile.XGLTYPE,
        tarfile.SOLARIS_XHDTYPE,
        tarfile.GNUTYPE_LONGNAME,
        tarfile.GNUTYPE_LONGLINK,
    }
)
_MAX_BYTES = 2**16
_TOO_MANY_DIGITS = re.compile(rb"[0-9]{256}")  # more than a name can have


class CheckedEntry(tarfile.TarInfo):
    """To be given to `tarfile.open` as `tarinfo`. Reading then raises ReadError for headers that nobody needs."""

    def _proc_member(self, tarfile: Any) -> Any:  # what the library has for subclasses to override
        if self.type in _EXTENDED:
            tarfile.fileobj = _Again(tarfile, self._checked(tarfile.fileobj))
        return super()._proc_member(tarfile)  # type: ignore[misc]

    def _checked(self, stream: Any) -> bytes:
        if self.size > _MAX_BYTES:
            raise tarfile.ReadError(f"a header has {self.size:,} bytes, expected {_MAX_BYTES:,} at most")
        content: bytes = stream.read(-(-self.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE)
        if _TOO_MANY_DIGITS.search(content):
            raise tarfile.ReadError("a header has a number that is too long")
        return content


class _Again:
    """Gives out once more what was read of an archive, and then is in its way no longer."""

    def __init__(self, archive: Any, content: bytes) -> None:
        self._archive, self._stream, self._content = archive, archive.fileobj, content

    def read(self, _: int) -> bytes:
        self._archive.fileobj = self._stream
        return self._content
