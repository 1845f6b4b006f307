"""A Python of this machine as an archive, to be unpacked at `/` where a tree is baked: program, library, loader.

A virtual environment lies beside it: there, every Python puts packages in the same way, also one that a distribution
has changed.
"""

import io
import os
import re
import tarfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from seatrial.errors import UsageError
from seatrial.images.baking.inside.elf import libraries_of, loader_of
from seatrial.images.baking.pythons import PythonHome

_LEFT_OUT = frozenset(
    {
        "__pycache__",
        "dist-packages",
        "ensurepip",
        "idlelib",
        "lib2to3",
        "site-packages",
        "test",
        "tests",
        "tkinter",
        "turtledemo",
    }
)
_LEFT_OUT_FILES = re.compile(r"_tkinter\..*|_test.*\.so|_ctypes_test.*|_xx.*\.so|libpython.*\.a|python\.o")
_CONFIGURATION = re.compile(r"config-\d.*")
_WHEELS_OF_DEBIAN = Path("/usr/share/python-wheels")
PIP_FOLDER = "pip"


def pack_python(home: PythonHome, root: str, archive: IO[bytes]) -> None:
    """Write a Python, to lie in `python`, `lib` and `env` below a root. Raises OSError."""
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        base = f"{root.lstrip('/')}"
        program = f"python/bin/{home.name}"
        tar.add(home.program, f"{base}/{program}", filter=_plain)
        for file, name in _library(home.library):
            tar.add(file, f"{base}/python/lib/{home.name}/{name}", recursive=False, filter=_plain)
        for name, path in _shared(home).items():
            tar.add(path.resolve(), f"{base}/lib/{name}", filter=_plain)
        settings = f"home = {root}/python/bin\ninclude-system-site-packages = false\nversion = {_version(home)}\n"
        add_text(tar, f"{base}/env/pyvenv.cfg", settings)
        for name in ("python", "python3", home.name):
            _add_link(tar, f"{base}/env/bin/{name}", f"../../{program}")
        folder = tarfile.TarInfo(f"{base}/env/lib/{home.name}/site-packages")
        folder.type, folder.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(folder)


def pack_pip(home: PythonHome, root: str, archive: tarfile.TarFile) -> str:
    """Add a pip to an archive; returns the program that a Python runs. Raises UsageError where there is none."""
    place = f"{root}/{PIP_FOLDER}"
    wheels = [*home.library.glob("ensurepip/_bundled/pip-*.whl"), *_WHEELS_OF_DEBIAN.glob("pip-*.whl")]
    if wheels:
        archive.add(wheels[0], f"{place.lstrip('/')}/{wheels[0].name}", filter=_plain)
        return f"{place}/{wheels[0].name}/pip"
    found = find_spec("pip")
    if found is None or found.origin is None:
        raise UsageError(
            f"agents are baked with pip, and neither {home.program} nor the Python of Seatrial has one; install it "
            "there (`python -m ensurepip`, `uv pip install pip`, or apt-get install python3-venv)"
        )
    archive.add(Path(found.origin).parent, f"{place.lstrip('/')}/pip", filter=_without_bytecode)
    return f"{place}/pip"


def add_text(tar: tarfile.TarFile, name: str, text: str) -> None:
    """Add a file with some text."""
    content = text.encode()
    member = tarfile.TarInfo(name.lstrip("/"))
    member.size, member.mode = len(content), 0o644
    tar.addfile(member, io.BytesIO(content))


def _version(home: PythonHome) -> str:
    return ".".join(map(str, home.version))


def _library(folder: Path) -> Iterator[tuple[Path, str]]:
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT and not _CONFIGURATION.fullmatch(name))
        for name in sorted(files):
            file = Path(place, name)
            if not _LEFT_OUT_FILES.fullmatch(name) and file.is_file():
                yield file.resolve(), str(file.relative_to(folder))


def _shared(home: PythonHome) -> dict[str, Path]:
    loader = loader_of(home.program)
    if loader is None:  # a static one brings all it needs
        return {}
    modules = [file for file, name in _library(home.library) if name.endswith(".so")]
    return libraries_of(loader, [home.program, *modules])


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    return member


def _without_bytecode(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if "__pycache__" in member.name else _plain(member)


def _add_link(tar: tarfile.TarFile, name: str, target: str) -> None:
    link = tarfile.TarInfo(name)
    link.type, link.linkname = tarfile.SYMTYPE, target
    tar.addfile(link)
