"""`.harborignore` in tests/ or solution/: which files there are no part of the task, in the syntax of .gitignore.

They are neither laid out for anybody nor do they count in a digest. A line that git would not understand says nothing.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

from seatrial.tasks.layout import read_text

IGNORE_FILE = ".harborignore"
_FOLDERS = ("tests", "solution")
_MAX_BYTES = 2**20

Ignored = Callable[[str], bool]
"""Whether a file is left out, given by its path within a folder; that of a directory ends in a slash."""


def ignored_in(folder: Path) -> Ignored:
    """What the `.harborignore` of a folder says. Only tests/ and solution/ have one."""
    if folder.name not in _FOLDERS:
        return _nothing
    try:
        text = read_text(folder / IGNORE_FILE, _MAX_BYTES, "replace")
    except ValueError:  # mostly, there is none
        return _nothing
    from pathspec import GitIgnoreSpec  # noqa: PLC0415 - hardly any task needs it

    def says_something(line: str) -> bool:
        try:
            return bool(GitIgnoreSpec.from_lines([line]))
        except ValueError:
            return False

    return GitIgnoreSpec.from_lines(filter(says_something, text.splitlines())).match_file


def ignored_below(root: Path, paths: Iterable[str]) -> Ignored:
    """What all such files below a root say, of which `paths` are the files."""
    found = [path for path in paths if path.endswith(IGNORE_FILE)]
    if not found:  # the usual case, asked of every task
        return _nothing
    folders = [path.removesuffix(IGNORE_FILE) for path in found if path.rpartition("/")[2] == IGNORE_FILE]
    rules = [(folder, ignored_in(root / folder)) for folder in folders]
    return lambda path: any(path.startswith(folder) and ignored(path[len(folder) :]) for folder, ignored in rules)


def _nothing(_: str) -> bool:
    return False
