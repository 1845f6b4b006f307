"""The beginning and the end of a stranger's file, at the same cost however large it is.

No link is followed anywhere below the folder, and nothing but a plain file is opened.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from seatrial.store.files import open_plain


@dataclass(frozen=True, slots=True)
class BoundedContent:
    """What was read of a file: all of it as `head`, or its beginning and, as `tail`, its end."""

    head: bytes
    tail: bytes
    size: int

    @property
    def whole(self) -> bool:
        """Whether nothing is left out."""
        return self.left_out == 0

    @property
    def left_out(self) -> int:
        """How many bytes between beginning and end were not read."""
        return max(0, self.size - len(self.head) - len(self.tail))

    def text(self) -> str:
        """What can be read of it as text, with a line that says how much is left out if anything is."""
        head = self.head.decode("utf-8", "replace")
        if self.whole:
            return head + self.tail.decode("utf-8", "replace")
        return f"{head}\n… {self.left_out:,} bytes are left out here …\n{self.tail.decode('utf-8', 'replace')}"


def bounded(content: bytes, limit: int = 2**18) -> BoundedContent:
    """The same of bytes that are in memory already."""
    if len(content) <= limit:
        return BoundedContent(content, b"", len(content))
    return BoundedContent(content[: limit - limit // 4], content[len(content) - limit // 4 :], len(content))


def read_bounded(path: Path, folder: Path, limit: int = 2**18) -> BoundedContent:
    """At most `limit` bytes of a plain file below a folder, most of them from its beginning.

    Raises StoreError that says what is in the way: no such file, a link on the path, a pipe, a way out of the folder.
    """
    with open_plain(path, folder) as file:
        size = os.fstat(file).st_size
        if size <= limit:
            content = os.pread(file, limit, 0)
            return BoundedContent(content, b"", len(content))
        tail = limit // 4
        return BoundedContent(os.pread(file, limit - tail, 0), os.pread(file, tail, size - tail), size)
