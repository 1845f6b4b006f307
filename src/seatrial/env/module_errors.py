"""What goes wrong in the module of an environment, as one error: which line of it, what happened, what to do."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from seatrial.errors import SeatrialError, UsageError

COMPAT = (
    "run it with `seatrial eval`, which stands in for verifiers by itself (--compat), or begin your program with "
    "`import seatrial.compat.verifiers; seatrial.compat.verifiers.install()`"
)

_OURS = str(Path(__file__).parents[1])


@contextmanager
def blaming_module(env_id: str, what: str, home: Path | None) -> Iterator[None]:
    """Turn whatever a stranger's module raises into one error that says where."""
    try:
        yield
    except (Exception, SystemExit) as error:
        raise module_error(env_id, what, error, home) from error


def module_error(env_id: str, what: str, error: BaseException, home: Path | None) -> UsageError:
    """One error for whatever a stranger's module raised. `home` is the folder that the module is in."""
    at = _blamed_line(error, home)
    said = f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}"
    said = str(error) if isinstance(error, SeatrialError) else said
    return UsageError(f"environment {env_id!r}: {what}: {at}{said}{_remedy(error, home)}")


def _blamed_line(error: BaseException, home: Path | None) -> str:
    """The innermost line of the module itself; of anybody's but ours, if it has none."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}: "
    frames = [each for each in traceback.extract_tb(error.__traceback__) if not _is_machinery(each.filename)]
    own = [each for each in frames if home and each.filename.startswith(f"{home}/")]
    if not (chosen := own or frames):
        return ""
    last = chosen[-1]
    function = "" if last.name == "<module>" else f", in {last.name}"
    return f"{last.filename}, line {last.lineno}{function}: "


def _is_machinery(file: str) -> bool:
    return file.startswith((_OURS, "<frozen ")) or "/importlib/" in file


def _remedy(error: BaseException, home: Path | None) -> str:
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return ""
    package = error.name.partition(".")[0]
    if package == "verifiers":
        return f"; {COMPAT}"
    project = home if home and (home / "pyproject.toml").is_file() else None
    return f"; install what it needs: pip install {project or package}"
