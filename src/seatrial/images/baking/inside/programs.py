"""The programs of a tree: what they are started by, the loader and libraries they get, and the scripts in its `bin`.

Programs run on every image because they are pointed to a loader and libraries of the tree's own. Those that do not
survive the change stay as they are, and take the image's own loader.
"""

import os
import re
import shlex
import shutil
import stat
import struct
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from seatrial.images.baking.inside.install import BakeFailure, BakeOrder

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


# Relocation: programs are pointed to the tree's own loader. Some do not survive being changed, such as those that
# carry more behind their own end, so each is started once afterwards.

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


# Launchers: shell scripts with whole paths. They need a `/bin/sh`, and change no variable: what an agent starts finds
# the image's own programs and libraries.

_NODE_ENDINGS = (".js", ".mjs", ".cjs")
_UNFIT = 126


@dataclass(frozen=True)
class Program:
    """A file that can be started, and by what: `node`, the tree's Python, or itself."""

    file: Path
    by: str

    def loader(self, tree: Path) -> str | None:
        """The loader of the image that it takes; None where it takes none."""
        loader = loader_of(self.file) if self.by == "itself" else None
        return None if loader is None or loader.startswith(f"{tree}/") else loader


def find_program(order: BakeOrder, name: str, place: str) -> Program:
    """The program that an order means: a file below the tree, or what the packages call so. Raises BakeFailure."""
    command = Path(place).name
    candidates = [Path(order.tree, place), order.packages / ".bin" / command, order.scripts / command]
    file = next((path.resolve() for path in candidates if path.is_file()), None)
    if file is None:
        raise BakeFailure(f"no package of {order.title} has the program {name!r}: there is no {place} in the tree")
    return Program(file, _started_by(file))


def _started_by(file: Path) -> str:
    if is_elf(file):
        return "itself"
    with file.open("rb") as script:
        first = script.readline(1024).decode(errors="replace")
    if not first.startswith("#!"):
        first = "node" if file.suffix in _NODE_ENDINGS else ""
    if "node" in first or "bun" in first:
        return "node"
    return "python" if "python" in first else "itself"


def launcher(order: BakeOrder, program: Program, instead: Program | None) -> str:
    """The script that starts a program, or another one `instead` of it where an image has that one's loader only."""
    tree = Path(order.tree)
    lines = ["#!/bin/sh"]
    needs, other = program.loader(tree), instead.loader(tree) if instead else None
    if needs and instead:
        fits = f"[ ! -e {shlex.quote(other)} ] || " if other else ""
        lines.append(f"[ -e {shlex.quote(needs)} ] || {fits}{_start(tree, instead)}")
    if needs:
        wanted = " or ".join(filter(None, (needs, other)))
        said = f"{order.title} cannot start in this image: it needs {wanted}, and there is none"
        lines.append(f"[ -e {shlex.quote(needs)} ] || {{ echo {shlex.quote(said)} >&2; exit {_UNFIT}; }}")
    return "\n".join([*lines, _start(tree, program), ""])


def _start(tree: Path, program: Program) -> str:
    first = {"node": [tree / "node/bin/node"], "python": [tree / "env/bin/python"]}.get(program.by, [])
    return f'exec {" ".join(shlex.quote(str(word)) for word in (*first, program.file))} "$@"'
