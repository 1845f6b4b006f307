"""Programs that run on every image: they are pointed to a loader and libraries of the tree's own.

Some programs do not survive being changed, such as those that carry more behind their own end. Each is started once
afterwards; one that does not start stays as it was, and takes the image's own loader.
"""

import os
import shutil
import stat
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from seatrial.images.baking.inside.elf import libraries_of, loader_of

_TIMEOUT_SEC = 120.0
_NOT_STARTED = (126, 127)


class Relocation:
    """The `lib` folder of a tree, and the programs that have been pointed there."""

    def __init__(self, tree: Path, patcher: Path) -> None:
        self._lib = tree / "lib"
        self._patcher = patcher

    def relocate(self, program: Path, loads: Sequence[str] = ()) -> bool:
        """Point a program to the tree's own libraries; False when it stays as it was.

        It has those that it `loads` from the start, so that modules which look for them elsewhere get them.
        """
        loader = loader_of(program)
        if loader is None or loader.startswith(str(self._lib)):
            return True
        if not Path(loader).exists():
            return False
        self.bring(loader, [program])
        changed = program.with_name(f"{program.name}.changed")  # the program itself may be running
        shutil.copy2(program, changed)
        if self._patch(changed, loader, [name for name in loads if (self._lib / name).exists()]) and starts(changed):
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

    def point_libraries(self, files: Iterable[Path]) -> None:
        """Have libraries look for others in the tree that look in folders of their own, which images do not have."""
        for file in files:
            if self._say("--print-rpath", str(file)).strip() in ("", str(self._lib)):
                continue
            changed = file.with_name(f"{file.name}.changed")  # it may be in use
            shutil.copy2(file, changed)
            if self._change(changed, "--force-rpath", "--set-rpath", str(self._lib)):
                changed.replace(file)
            changed.unlink(missing_ok=True)

    def _patch(self, program: Path, loader: str, loads: Sequence[str]) -> bool:
        # One after the other, and the loader last: node crashes after both at once, or the other way round.
        return (
            self._change(program, "--force-rpath", "--set-rpath", str(self._lib))
            and all(self._change(program, "--add-needed", name) for name in loads)
            and self._change(program, "--set-interpreter", str(self._lib / Path(loader).name))
        )

    def _change(self, file: Path, *words: str) -> bool:
        file.chmod(file.stat().st_mode | stat.S_IWUSR)
        return subprocess.run([str(self._patcher), *words, str(file)], check=False).returncode == 0  # noqa: S603 - ours

    def _say(self, *words: str) -> str:
        done = subprocess.run([str(self._patcher), *words], capture_output=True, check=False)  # noqa: S603 - as above
        return done.stdout.decode(errors="replace")


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
