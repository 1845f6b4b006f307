"""The text files of a task's folders, within bounds: what a task tells an agent by other means than its instruction."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from seatrial.errors import OversizeError
from seatrial.tasks.layout import list_files, read_text

_MAX_FILE_BYTES = 2**19
_MAX_FILES = 2000


@lru_cache(maxsize=8)
def texts_below(root: Path, folder: str) -> Mapping[str, str]:
    """The text files in a folder of a task, by their paths in the task. What is large or no text is left out."""
    return MappingProxyType(dict(_texts(root, folder)))


def _texts(root: Path, folder: str) -> Iterator[tuple[str, str]]:
    for path in file_names(root, folder)[:_MAX_FILES]:
        try:
            text = read_text(root / path, _MAX_FILE_BYTES, "replace")
        except (ValueError, OSError):
            continue
        if "\0" not in text:
            yield path, text


def file_names(root: Path, folder: str) -> list[str]:
    """The regular files in a folder of a task, by their paths in the task; none if they cannot be listed."""
    try:
        files = list_files(root)
    except (OSError, OversizeError):
        return []
    return sorted(path for path in files.regular if path.startswith(f"{folder}/"))
