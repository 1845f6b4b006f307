"""What changed files of a trial look like: as the agent left them, beside what they were before where that is known."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from markupsafe import Markup

from seatrial.errors import StoreError
from seatrial.model.task import Task
from seatrial.trial.snapshot import ARCHIVE
from seatrial.view.end_state import LeftFile, has_end_state, read_end_state
from seatrial.view.originals import find_original
from seatrial.view.rendering.bounded import BoundedContent
from seatrial.view.rendering.differences import show_difference
from seatrial.view.rendering.show import show_file
from seatrial.view.trial.opened import OpenedTrial, round_folder
from seatrial.view.trial.task_folder import staged_original, unchanged_task

SMALL = 2**20
"""Up to how many bytes an end state is read with the trial's page."""


@dataclass(frozen=True, slots=True)
class ShownChange:
    """What became of a file, as HTML, and what a reader must know about it."""

    html: Markup
    note: str = ""


@dataclass(frozen=True)
class EndStateFiles:
    """The files of the last end state that a trial kept: a task with steps has one after each."""

    trial: OpenedTrial

    @cached_property
    def _place(self) -> Path | None:
        """The folder that it is in, from the job's on."""
        places = [round_folder(Path("trials", self.trial.trial_id), step) for step in reversed(self.trial.rounds)]
        return next((place for place in places if has_end_state(self.trial.job.path, place)), None)

    @cached_property
    def _task(self) -> Task | None:
        """The task, if its folder still tells what files were; to find that out, all of it is looked at."""
        return unchanged_task(self.trial.task)

    @property
    def exists(self) -> bool:
        """Whether one was kept."""
        return self._place is not None

    @property
    def is_small(self) -> bool:
        """Whether it can be read with the page."""
        return self._place is not None and (self.trial.job.path / self._place / ARCHIVE).lstat().st_size <= SMALL

    def show_all(self, kinds: Mapping[str, str]) -> dict[str, ShownChange]:
        """What became of each of these files, by their paths; their kinds are `added`, `modified` and `removed`."""
        try:
            left = read_end_state(self.trial.job.path, self._place, [*kinds]) if self._place else {}
        except StoreError as error:
            return {path: ShownChange(Markup(), str(error)) for path in kinds}
        return {path: self._show(path, kind, left.get(path)) for path, kind in kinds.items()}

    def _show(self, path: str, kind: str, left: LeftFile | None) -> ShownChange:
        after = left.content if left else None
        if kind != "removed" and after is None:
            return ShownChange(Markup(), left.note if left else "What is in it was not kept.")
        before, where = self._before(path) if kind != "added" else (None, "")
        if after is not None and (before is None or not (before.whole and after.whole)):
            shown = show_file(path, after)
            missing = "" if kind == "added" else "What it was before is not known, or too large to be compared."
            return ShownChange(shown.html, "; ".join(filter(None, (shown.note, missing))))
        if before is None:
            return ShownChange(Markup(), "What was in it is not known.")
        return ShownChange(show_difference(before.head, after.head if after else None, path), where)

    def _before(self, path: str) -> tuple[BoundedContent | None, str]:
        """What a file was before the agent came, and where that was found."""
        if self._task and (staged := staged_original(self._task, path)):
            return staged, "before: from the task's folder"
        record = self.trial.record
        original = find_original(record.sandbox, path) if record else None
        return (original.content, original.note) if original else (None, "")
