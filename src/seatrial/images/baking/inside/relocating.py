"""Programs that run on every image: they are pointed to a loader and libraries of the tree's own.

Some programs do not survive being changed, such as those that carry more behind their own end. Each is started once
afterwards; one that does not start stays as it was, and takes the image's own loader.
"""

import os
import shutil
import stat
import subprocess
from collections.abc import Iterable
from pathlib import Path

from seatrial.images.baking.inside.elf import libraries_of, loader_of

_TIMEOUT_SEC = 120.0
_NOT_STARTED = (126, 127)


class Relocation:
    """The `lib` folder of a tree, and the programs that have been pointed there."""

    def __init__(self, tree: Path, patcher: Path) -> None:
        self._lib = tree / "lib"
        self._patcher = patcher

    def relocate(self, program: Path) -> bool:
        """Point a program to the tree's own libraries; False when it stays as it was."""
        loader = loader_of(program)
        if loader is None or loader.startswith(str(self._lib)):
            return True
        if not Path(loader).exists():
            return False
        self.bring(loader, [program])
        changed = program.with_name(f"{program.name}.changed")  # the program itself may be running
        shutil.copy2(program, changed)
        if self._patch(changed, loader) and starts(changed):
            changed.replace(program)
            return True
        changed.unlink()
        return False

    def bring(self, loader: str, files: Iterable[Path]) -> None:
        """Have the loader and the libraries of some files in the tree."""
        self._lib.mkdir(parents=True, exist_ok=True)
        for name, path in libraries_of(loader, files).items():
            target = self._lib / name
            if not target.exists():
                shutil.copyfile(path, target)
                target.chmod(0o755)

    def _patch(self, program: Path, loader: str) -> bool:
        program.chmod(program.stat().st_mode | stat.S_IWUSR)
        own = str(self._lib / Path(loader).name)
        words = ["--set-interpreter", own, "--force-rpath", "--set-rpath", str(self._lib), str(program)]
        return subprocess.run([str(self._patcher), *words], check=False).returncode == 0  # noqa: S603 - brought here


def starts(program: Path) -> bool:
    """Whether a program gets as far as saying something about itself, whatever it thinks of being asked."""
    environ = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    command = [str(program), "--version"]
    try:
        done = subprocess.run(  # noqa: S603 - what the tree is for
            command, env=environ, capture_output=True, stdin=subprocess.DEVNULL, timeout=_TIMEOUT_SEC, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode >= 0 and done.returncode not in _NOT_STARTED
