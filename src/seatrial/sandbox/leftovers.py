"""What killed runs left on a machine, once somebody has tried to remove it: what has gone, and what is still there."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Cleared:
    """What has gone and what is still there, by name; `problems` are whole sentences about what could not be tried."""

    removed: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    def __add__(self, other: "Cleared") -> "Cleared":
        problems = (*self.problems, *other.problems)
        return Cleared((*self.removed, *other.removed), (*self.left, *other.left), problems)


def look_again(paths: Iterable[Path]) -> Cleared:
    """Which of those paths have gone by now, and which have not."""
    known = list(paths)
    there = {path for path in known if path.exists()}
    return Cleared(
        tuple(str(path) for path in known if path not in there), tuple(str(path) for path in known if path in there)
    )
