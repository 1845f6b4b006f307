"""Files that environments read and write by functions of verifiers."""

import tempfile
from pathlib import Path
from typing import Any, BinaryIO

import tomli


def load_toml(file_obj: BinaryIO) -> dict[str, Any]:
    """What a TOML file that is open for reading bytes says."""
    return tomli.load(file_obj)


def write_temp_file(content: str | bytes, suffix: str = "") -> str:
    """The path of a new file with this content; whoever asked for it removes it."""
    data = content.encode() if isinstance(content, str) else content
    with tempfile.NamedTemporaryFile(suffix=suffix, delete=False) as file:
        file.write(data)
    return str(Path(file.name))
