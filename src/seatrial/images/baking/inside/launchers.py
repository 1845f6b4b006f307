"""The programs of a tree as users start them: small shell scripts in its `bin`, with whole paths and nothing else.

They need a `/bin/sh`, and change no variable: what an agent starts finds the image's own programs and libraries.
"""

import shlex
from dataclasses import dataclass
from pathlib import Path

from seatrial.images.baking.inside.elf import is_elf, loader_of
from seatrial.images.baking.inside.install import BakeFailure
from seatrial.images.baking.inside.orders import BakeOrder

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
