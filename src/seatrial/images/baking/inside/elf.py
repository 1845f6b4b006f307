"""Programs and libraries of this machine: which loader one asks for, and which libraries it would be given."""

import re
import struct
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

_MAGIC = b"\x7fELF"
_64_BIT, _LITTLE = 2, 1
_PT_INTERP = 3
_MAX_HEADERS = 128
_LISTED = re.compile(r"^\s*(?:(\S+) => )?(/\S+) \(0x[0-9a-f]+\)$", re.MULTILINE)
# Loaded by name while a program runs, so that no list of what a program needs has them.
_LATER = (
    *("libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1", "libm.so.6", "libresolv.so.2", "libgcc_s.so.1"),
    *("libstdc++.so.6", "libnss_files.so.2", "libnss_dns.so.2", "libatomic.so.1"),
)


def is_elf(path: Path) -> bool:
    """Whether a file is a program or a library of this kind of system."""
    with path.open("rb") as file:
        return file.read(4) == _MAGIC


def loader_of(path: Path) -> str | None:
    """The loader that a program names; None for a static one, a library, and what is no program at all."""
    try:
        with path.open("rb") as file:
            header = file.read(64)
            if len(header) < 64 or header[:6] != _MAGIC + bytes((_64_BIT, _LITTLE)):
                return None
            (offset,) = struct.unpack_from("<Q", header, 32)
            size, count = struct.unpack_from("<HH", header, 54)
            file.seek(offset)
            table = file.read(size * min(count, _MAX_HEADERS))
            for start in range(0, len(table) - 55, max(size, 56)):
                (kind,) = struct.unpack_from("<I", table, start)
                if kind == _PT_INTERP:
                    place, _, _, length = struct.unpack_from("<QQQQ", table, start + 8)
                    file.seek(place)
                    return file.read(min(length, 4096)).rstrip(b"\0").decode(errors="surrogateescape") or None
    except (OSError, OverflowError, ValueError):
        return None
    return None


def libraries_of(loader: str, files: Iterable[Path], environ: Mapping[str, str] | None = None) -> dict[str, Path]:
    """The libraries that a loader gives to programs and libraries, by the names under which they are asked for.

    What cannot be listed needs none. The loader itself is among them.
    """
    found = {Path(loader).name: Path(loader)}
    for file in files:
        listed = subprocess.run(  # noqa: S603 - the loader of this machine
            [loader, "--list", str(file)], capture_output=True, check=False, env=environ
        )
        for name, path in _LISTED.findall(listed.stdout.decode(errors="replace")):
            found.setdefault(name.rpartition("/")[2] or Path(path).name, Path(path))
    folders = {path.parent for name, path in found.items() if name.startswith(("libc.", "libstdc++."))}
    beside = [folder / name for name in _LATER for folder in sorted(folders)]
    return {**{path.name: path for path in beside if path.exists()}, **found}
