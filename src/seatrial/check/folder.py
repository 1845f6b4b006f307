"""The folder of results: one file per task, there as a whole or not at all. What is there need not be done again."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from seatrial.model.base import to_json
from seatrial.model.check import TaskCheck
from seatrial.model.trial_ids import trial_stem
from seatrial.store.files import read_plain, replace_file, storing
from seatrial.store.lock import locked

_MOST_BYTES = 64 * 2**20


def digest_options(**options: Any) -> str:
    """A digest of all that results depend on besides the task."""
    return hashlib.sha256(json.dumps(options, sort_keys=True).encode()).hexdigest()


class CheckFolder:
    """Keeps the results of checks."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Make the folder and hold its lock. Raises JobError when another run has it, StoreError without a folder."""
        with storing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        with locked(self.path):
            yield

    def load(self, task_id: str, digest: str, options: str) -> TaskCheck | None:
        """The result for a task that is still the same, under the same options; None where it is to be made.

        A result that cannot be read is made anew. So is one without a grade: what was in the way may be gone.
        """
        try:
            found = TaskCheck.model_validate_json(read_plain(self._file(task_id), _MOST_BYTES))
        except (OSError, ValidationError):
            return None
        same = (found.task, found.digest, found.options) == (task_id, digest, options)
        return found if same and found.grade is not None else None

    def store(self, check: TaskCheck) -> None:
        """Keep a result in place of an earlier one. Raises StoreError."""
        file = self._file(check.task)
        with storing(file):
            file.parent.mkdir(exist_ok=True)
            replace_file(file, to_json(check))

    def _file(self, task_id: str) -> Path:
        before, after = trial_stem(task_id, "check")
        return self.path / "tasks" / f"{before}{after.lstrip('.')}{'.' if after else ''}json"
