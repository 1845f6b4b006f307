"""Later revisions of a job's trials: verdicts on the same end state, beside the first one, which stays as it is.

The newest one counts. A job that was never regraded has no folder of them, which costs one look.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

REVISIONS = "revisions"
LAST_REVISION = 999_999_999
_NUMBER = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)  # up to the last one
_Listing = Mapping[str, Sequence[int]]


def revision_name(trial_id: str, revision: int) -> str:
    """How a revision is called, in `parent` and as a folder: the first one is the trial itself."""
    return f"{trial_id}.{revision}" if revision else trial_id


@dataclass(eq=False, slots=True)
class Revisions:
    """Which later revisions there are. The folder is listed again only when something was added to it."""

    folder: Path
    _stamp: int | None = None
    _found: _Listing = field(default_factory=dict)

    def numbers(self) -> _Listing:
        """The numbers of the later revisions of each trial that has some, in order. Raises OSError."""
        try:
            stamp = os.stat(self.folder, follow_symlinks=False).st_mtime_ns  # noqa: PTH116 - asked for every record
        except FileNotFoundError:
            return {}
        if stamp != self._stamp:
            self._found, self._stamp = self._list(), stamp
        return self._found

    def forget(self) -> None:
        """List them again next time: clocks of file systems are too coarse to tell two changes in a row."""
        self._stamp = None

    def of(self, trial_id: str) -> Sequence[int]:
        """The numbers of the later revisions of a trial, in order. Raises OSError."""
        return self.numbers().get(trial_id, ())

    def _list(self) -> _Listing:
        found: dict[str, list[int]] = {}
        for name in os.listdir(self.folder):  # noqa: PTH208 - names only
            trial, _, number = name.rpartition(".")
            if trial and _NUMBER.fullmatch(number):
                found.setdefault(trial, []).append(int(number))
        return {trial: sorted(numbers) for trial, numbers in found.items()}
