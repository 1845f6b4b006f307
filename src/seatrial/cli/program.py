"""How a user can start this program again: what commands in our advice begin with."""

import shlex
import shutil
import sys
from pathlib import Path

_NAME = "seatrial"


def command_line(*arguments: str) -> str:
    """A command that works as it is printed, from where the user stands."""
    return shlex.join((*_program(sys.argv[0]), *arguments))


def _program(started_as: str) -> tuple[str, ...]:
    path = Path(started_as)
    if path.name == "__main__.py":
        return (Path(sys.executable).name, "-m", _NAME)
    on_path = shutil.which(_NAME)
    if path.name != _NAME or (on_path and Path(on_path).resolve() == path.resolve()):
        return (_NAME,)
    return (started_as,)
