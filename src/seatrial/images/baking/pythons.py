"""The Python of this machine that goes into a tree: the newest one that the packages can run on, packed with a pip."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from seatrial.errors import UsageError
from seatrial.images.baking.inside.programs import libraries_of, loader_of
from seatrial.sandbox.archives import add_file, folder_member, link_member

_CONDITION = re.compile(r"\s*(>=|<=|==|<|>|)\s*(\d+)\.(\d+)(?:\.\*|\.\d+)?\s*")
_SUPPORTED = range(10, 16)
_TIMEOUT_SEC = 20.0
_ASK = """
import json, os, sys
program = os.path.realpath(sys.executable)
print(json.dumps({"version": sys.version_info[:3], "program": program, "library": os.path.dirname(os.__file__)}))
"""


@dataclass(frozen=True, slots=True)
class PythonHome:
    """A Python of this machine: its program, the folder of its standard library, its version."""

    program: Path
    library: Path
    version: tuple[int, int, int]

    @property
    def name(self) -> str:
        """As its folders are called."""
        return f"python{self.version[0]}.{self.version[1]}"


def choose_python(wanted: str | None, title: str) -> PythonHome:
    """The newest Python here that satisfies a condition such as `>=3.12,<3.14`. Raises UsageError for none."""
    conditions = _conditions(wanted, title)
    found: list[PythonHome] = []
    for program in candidates():
        home = examine(program)
        if home and all(_holds(home.version[:2], *condition) for condition in conditions):
            return home
        found += [home] if home else []
    versions = ", ".join(sorted({".".join(map(str, home.version)) for home in found})) or "none"
    raise UsageError(
        f"{title} is baked with a Python {wanted} of this machine, and there is none; found {versions}. Install one "
        "as `uv python install` or pyenv do, or bake it elsewhere and `seatrial agents load` the file"
    )


def candidates() -> Iterator[Path]:
    """Programs that may be Pythons, the newest version first; of one version, what runs us first."""
    running = Path(sys._base_executable)  # type: ignore[attr-defined] # noqa: SLF001 - the Python below an environment
    managed = os.environ.get("UV_PYTHON_INSTALL_DIR", "~/.local/share/uv/python")
    folders = [*Path("~/.pyenv/versions").expanduser().glob("*/bin"), *Path(managed).expanduser().glob("*/bin")]
    for minor in reversed(_SUPPORTED):
        name = f"python3.{minor}"
        if sys.version_info[:2] == (3, minor):
            yield running
        found = [shutil.which(name), f"/usr/bin/{name}", f"/usr/local/bin/{name}"]
        places = [*(Path(place) for place in found if place), *(folder / name for folder in folders)]
        yield from (place for place in dict.fromkeys(places) if place.exists())


def examine(program: Path) -> PythonHome | None:
    """What a program says of itself; None when it is no Python that can be copied."""
    try:
        done = subprocess.run(  # noqa: S603 - a program of this machine, which asks for nothing
            [str(program), "-I", "-c", _ASK], capture_output=True, timeout=_TIMEOUT_SEC, check=True
        )
        said = json.loads(done.stdout)
        home = PythonHome(Path(said["program"]), Path(said["library"]), tuple(said["version"]))
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError):
        return None
    return home if (home.library / "os.py").is_file() else None


def _conditions(wanted: str | None, title: str) -> list[tuple[str, tuple[int, int]]]:
    conditions = []
    for text in (wanted or ">=3.10").split(","):
        read = _CONDITION.fullmatch(text)
        if read is None:
            raise UsageError(f"{title}: python = {wanted!r} is not understood; expected something like '>=3.12,<3.14'")
        conditions.append((read[1] or "==", (int(read[2]), int(read[3]))))
    return conditions


def _holds(version: tuple[int, ...], sign: str, bound: tuple[int, int]) -> bool:
    compared = (version > bound) - (version < bound)
    return compared in {">=": (0, 1), "<=": (-1, 0), "==": (0,), "<": (-1,), ">": (1,)}[sign]


# Packing: program, library and loader, to be unpacked at `/` where a tree is baked. A virtual environment is beside it:
# there, every Python puts packages in the same way, also one that a distribution has changed.

_LEFT_OUT = frozenset(
    """
    __pycache__ dist-packages ensurepip idlelib lib2to3 site-packages test tests tkinter turtledemo
    """.split()  # noqa: SIM905 - names read better as text
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
        version = ".".join(map(str, home.version))
        settings = f"home = {root}/python/bin\ninclude-system-site-packages = false\nversion = {version}\n"
        add_text(tar, f"{base}/env/pyvenv.cfg", settings)
        for name in ("python", "python3", home.name):
            tar.addfile(link_member(f"{base}/env/bin/{name}", f"../../{program}"))
        tar.addfile(folder_member(f"{base}/env/lib/{home.name}/site-packages"))


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
    add_file(tar, name.lstrip("/"), text.encode())


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
