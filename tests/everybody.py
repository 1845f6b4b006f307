"""A Python that an ordinary user can start: this one, or an environment of the system's with this one's packages."""

import os
import stat
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

_SYSTEM = "/usr/bin/python3"
_SOURCE = Path(__file__).parent.parent / "src"


def python_for_everybody(folder: Path) -> str:
    """A program, made below `folder` if need be: this one may be in root's own home. Skips where none can be made."""
    packages = Path(sysconfig.get_path("purelib"))
    for place in (packages, _SOURCE):
        if not _all_may_enter(place):
            pytest.skip(f"{place} lies where an ordinary user may not go")
    if all(_all_may_enter(Path(place).parent) for place in (sys.executable, os.path.realpath(sys.executable))):
        return sys.executable
    version = [_SYSTEM, "-c", "import sys; print(*sys.version_info[:2], sep='.')"]
    found = subprocess.run(version, capture_output=True, text=True, check=False) if Path(_SYSTEM).exists() else None
    if found is None or found.stdout.strip() != f"{sys.version_info[0]}.{sys.version_info[1]}":
        pytest.skip(f"{sys.executable} lies where an ordinary user may not go, and {_SYSTEM} is none of its version")
    subprocess.run([_SYSTEM, "-m", "venv", "--without-pip", folder / "python"], check=True)
    (own,) = (folder / "python/lib").glob("python*/site-packages")
    (own / "this.pth").write_text(f"{_SOURCE}\n{packages}\n")
    return str(folder / "python/bin/python")


def _all_may_enter(folder: Path) -> bool:
    return all(each.stat().st_mode & stat.S_IXOTH for each in (folder, *folder.parents))
