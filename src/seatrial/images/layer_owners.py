"""What owners of files in our layers, as this machine has them, stand for inside of an image."""

import os
import pwd
from dataclasses import dataclass

from seatrial.sandbox.embedded.id_ranges import granted_range

_MAX_ID = 2**32 - 2
_TABLES = ("/etc/subuid", "/etc/subgid")


@dataclass(frozen=True, slots=True)
class OwnersHere:
    """How owners of files in our layers are to be read; as root, they are who they are.

    An ordinary user's own files are root's in an image, and the ids that were granted to them begin at 1 there.
    """

    own: tuple[int, int]
    granted: tuple[tuple[int, int], tuple[int, int]]

    @classmethod
    def here(cls) -> "OwnersHere":
        """As it is for this user."""
        own = os.getuid(), os.getgid()
        if own[0] == 0:
            return cls((0, 0), ((1, _MAX_ID), (1, _MAX_ID)))
        try:
            name = pwd.getpwuid(own[0]).pw_name
        except KeyError:  # as in a container that is told to run as some number
            name = str(own[0])
        first, count = zip(*(granted_range(table, name, own[0]) or ("0", "0") for table in _TABLES), strict=True)
        return cls(own, ((int(first[0]), int(count[0])), (int(first[1]), int(count[1]))))

    def inside(self, status: os.stat_result) -> tuple[int, int]:
        """Who a file of a layer belongs to in the image."""
        found = (status.st_uid, status.st_gid)
        uid, gid = (
            0 if number == own else number - first + 1 if first <= number < first + count else 0
            for number, own, (first, count) in zip(found, self.own, self.granted, strict=True)
        )
        return uid, gid
