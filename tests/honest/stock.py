"""Packages made on the spot: wheels and Debian packages as the usual tools make them, for indexes without a network."""

import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path


def make_wheel(shelf: Path, name: str, version: str, files: Mapping[str, str], entry_points: str = "") -> Path:
    """A wheel of pure Python with the given files and entry points."""
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    contents = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: by-hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/top_level.txt": f"{module}\n",
        **({f"{info}/entry_points.txt": entry_points} if entry_points else {}),
    }
    record = f"{info}/RECORD"
    contents[record] = "".join(f"{path},,\n" for path in (*contents, record))
    path = shelf / f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for inside, text in contents.items():
            wheel.writestr(inside, text)
    return path


def module(name: str, version: str, said: str = "") -> dict[str, str]:
    """The files of a package that knows its version."""
    return {f"{name}/__init__.py": f'__version__ = "{version}"\n{said}', f"{name}/part.py": f'VERSION = "{version}"\n'}


def make_deb(
    shelf: Path, name: str, version: str, files: Mapping[str, str | Path], control: Mapping[str, str] | None = None
) -> Path:
    """A Debian package; `control` are more files such as `conffiles` and `postinst`. Texts in bin folders can run."""
    path = shelf / f"{name}_{version}_all.deb"
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        about = f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: a <a@b.c>\nDescription: {name}\n"
        for inside, text in {"DEBIAN/control": about, **(_controls(control))}.items():
            _write(tree / inside, text)
        for inside, content in files.items():
            _write(tree / inside.lstrip("/"), content)
        tree.chmod(0o755)
        command = ["dpkg-deb", "--root-owner-group", "-Znone", "--build", str(tree), str(path)]
        subprocess.run(command, check=True, capture_output=True)
    return path


def _controls(control: Mapping[str, str] | None) -> dict[str, str]:
    return {f"DEBIAN/{name}": text for name, text in (control or {}).items()}


def _write(path: Path, content: str | Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, Path):
        shutil.copy(content, path)
    else:
        path.write_text(content)
    runs = path.parent.name in ("bin", "sbin", "init.d") or path.name in ("postinst", "prerm", "postrm", "preinst")
    path.chmod(0o755 if runs else 0o644)
