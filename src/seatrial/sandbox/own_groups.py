"""The control groups that this process itself is in, whose limits hold for all of its sandboxes together."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from seatrial.sandbox.cgroups import Hierarchy, Mount
from seatrial.sandbox.control_group import Version, read


@dataclass(frozen=True, slots=True)
class OwnGroup:
    """One of them, in one hierarchy."""

    path: Path
    version: Version

    def number(self, file: str, key: str | None = None) -> int | None:
        """A number from one of its files, behind a key if the file has several; None where there is none."""
        try:
            words = read(f"{self.path}/{file}").split()
            word = words[0] if key is None else words[words.index(key) + 1]
            return int(word)
        except (OSError, ValueError, IndexError):  # not there, or the word "max"
            return None


@lru_cache
def own_groups(controller: str) -> tuple[OwnGroup, ...]:
    """The groups that a controller limits us by, from our own up to the topmost that is visible; found out once."""
    mounts = Hierarchy.here().mounts
    return tuple(group for mount in mounts if controller in mount.controllers for group in _upwards(mount))


def _upwards(mount: Mount) -> list[OwnGroup]:
    own, top = mount.parents[0], mount.parents[-1]
    paths = [path for path in (own, *own.parents) if path == top or path.is_relative_to(top)]
    return [OwnGroup(path, mount.version) for path in paths]
