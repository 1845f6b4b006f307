"""What the files of an export are called: names that every file system and every browser takes."""

import hashlib
import os
import re
from pathlib import PurePosixPath

_PLAIN = re.compile(r"[a-z0-9_-][a-z0-9._-]{0,79}", re.ASCII)
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+", re.ASCII)
_KEPT = 40
# Opened from a disk, these are shown or saved; whatever else it is, `.txt` keeps a browser from running it.
_HARMLESS = {
    ".csv", ".docx", ".gif", ".gz", ".jpeg", ".jpg", ".json", ".jsonl", ".log", ".md", ".pdf", ".png", ".tar", ".tsv",
    ".txt", ".webp", ".xlsx", ".zip", ".zst",
}  # fmt: skip


def plain_name(text: str) -> str:
    """A name for something, the same for the same and another for another, also where case makes no difference."""
    if _PLAIN.fullmatch(text):
        return text
    digest = hashlib.sha256(os.fsencode(text)).hexdigest()[:12]
    return f"{_UNFIT.sub('_', text)[:_KEPT].strip('.')}-{digest}"


def raw_name(path: str) -> str:
    """A name for the bytes of a file, which no browser takes for a page or a program."""
    name, suffix = plain_name(path), PurePosixPath(path).suffix.lower()
    if suffix in _HARMLESS:
        return name if name.endswith(suffix) else f"{name}{suffix}"
    return f"{name}.txt"
