"""Which Python of this machine goes into a tree: one that the packages can run on, and the newest of those."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from seatrial.errors import UsageError

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
