"""Makes `import verifiers` mean Seatrial, in this process, from the import of this module on.

`python -m seatrial.compat.verifiers PROGRAM [ARGUMENTS]` runs a program that way without changing a line of it.
"""

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from seatrial.compat.finder import CompatFinder, behave_alike, is_ours
from seatrial.errors import UsageError

_USAGE = "usage: python -m seatrial.compat.verifiers PROGRAM.py [ARGUMENTS] | -m MODULE [ARGUMENTS]"


def install() -> None:
    """Let `import verifiers` and everything below it give ours from now on; again is as good as once.

    Raises UsageError when the verifiers package itself is imported already: two kinds of the same classes would be
    about.
    """
    found = sys.modules.get("verifiers")
    if found is not None and not is_ours(found):
        raise UsageError(
            f"verifiers is imported already, from {getattr(found, '__file__', None) or 'an unknown place'}; import "
            "seatrial.compat.verifiers before anything that imports verifiers"
        )
    if not any(isinstance(finder, CompatFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, CompatFinder())


def uninstall() -> None:
    """Let `import verifiers` find what is installed again. Modules that hold names of ours keep them."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, CompatFinder)]
    for name in [name for name, module in sys.modules.items() if is_ours(module)]:
        del sys.modules[name]
    behave_alike(alike=False)


def main(arguments: Sequence[str]) -> int:
    """Run a program, or a module after `-m`, with the rest as its arguments. Raises what it raises."""
    try:
        return _run(arguments)
    except ModuleNotFoundError as error:
        if error.name == "datasets":
            error.add_note("environments with HuggingFace datasets need the package: pip install 'seatrial[hf]'")
        raise


def _run(arguments: Sequence[str]) -> int:
    match arguments:
        case ["-m", module, *rest]:
            sys.argv[:] = [module, *rest]
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case [program, *rest] if not program.startswith("-"):
            sys.argv[:] = [program, *rest]
            sys.path[0] = str(Path(program).resolve().parent)
            runpy.run_path(program, run_name="__main__")
        case _:
            sys.stderr.write(f"{_USAGE}\n")
            return 2
    return 0


install()

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
