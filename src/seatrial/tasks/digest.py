"""A digest of a folder's content: the same for the same files wherever they lie, different for any change."""

import hashlib
import os
from pathlib import Path

from seatrial.tasks.layout import list_files


def digest_folder(root: Path) -> str:
    """SHA-256 over the sorted paths, executable bits and contents of a folder. Links count by where they point."""
    files = list_files(root)
    total = hashlib.sha256()
    for relative in sorted(files.regular | files.links):
        path = root / relative
        if relative in files.links:
            kind, content = b"link", hashlib.sha256(os.fsencode(path.readlink())).digest()
        else:
            kind, content = _kind_and_content(path)
        # Lengths before names: no two different folders can then feed the same bytes to the hash.
        name = os.fsencode(relative)
        total.update(b"%d:%b%b%b" % (len(name), name, kind, content))
    return total.hexdigest()


def _kind_and_content(path: Path) -> tuple[bytes, bytes]:
    with path.open("rb") as file:
        executable = os.fstat(file.fileno()).st_mode & 0o100
        return b"exec" if executable else b"file", hashlib.file_digest(file, "sha256").digest()
