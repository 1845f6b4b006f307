"""Variables that an environment cannot do without."""

import os
from collections.abc import Sequence

from seatrial.errors import UsageError


class MissingKeyError(UsageError, ValueError):
    """Variables that an environment needs are not set; `keys` are their names."""

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys = list(keys)
        super().__init__(f"not set: {', '.join(keys)}; export them before the program starts, as in export NAME=VALUE")


def ensure_keys(keys: Sequence[str]) -> None:
    """Raise MissingKeyError that names all of these variables that are not set."""
    missing = [key for key in keys if not os.environ.get(key)]
    if missing:
        raise MissingKeyError(missing)
