"""Links of an export: from the file of one page to that of another; whatever is linked becomes a part of it."""

import posixpath
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import ClassVar, Literal
from urllib.parse import quote

from seatrial.view.exporting.plan import ExportPlan
from seatrial.view.links import Links

_NOT_EXPORTED = ""


@dataclass(frozen=True, slots=True)
class ExportLinks(Links):
    """The links of one page. What no export has leads nowhere: its address is empty."""

    plan: ExportPlan
    here: PurePosixPath
    size_of: Callable[[str, str, str], int | None]
    kind: ClassVar[Literal["served", "exported"]] = "exported"

    def static(self, name: str) -> str:
        """A file of ours: style or script."""
        return self._to(PurePosixPath("static", name))

    def jobs(self) -> str:
        """All jobs."""
        return self._to(self.plan.page("jobs"))

    def job(self, job: str, **query: str) -> str:
        """A job by its key, and further pages of its trials; any other choice among them is made in a viewer."""
        if query.keys() - {"page"}:
            return _NOT_EXPORTED
        return self._to(self.plan.page("job", job, query.get("page", "1")))

    def trial(self, job: str, trial_id: str) -> str:
        """A trial."""
        return self._to(self.plan.page("trial", job, trial_id))

    def file(self, job: str, trial_id: str, path: str) -> str:
        """A file of a trial's folder, shown by its format."""
        return self._to(self.plan.page("file", job, trial_id, path))

    def raw(self, job: str, trial_id: str, path: str) -> str:
        """The bytes of a file of a trial's folder, unless they are too many."""
        return self._to(self.plan.raw(job, trial_id, path, self.size_of(job, trial_id, path)))

    def conversation(self, job: str, trial_id: str, step: str | None, page: int) -> str:
        """A page of a trial's conversation, or of one of its steps."""
        return self._to(self.plan.page("conversation", job, trial_id, step or "", str(page)))

    def turns(self, job: str, trial_id: str, step: str | None, page: int) -> str:
        """Nowhere: parts of pages are fetched from a viewer."""
        return _NOT_EXPORTED

    def change(self, job: str, trial_id: str, path: str) -> str:
        """What an agent did to a file of its sandbox."""
        return self._to(self.plan.page("change", job, trial_id, path))

    def trials_json(self, job: str, **query: str) -> str:
        """Nowhere: programs read the job itself."""
        return _NOT_EXPORTED

    def events(self, *jobs: str) -> str:
        """Nowhere: an export is of one moment."""
        return _NOT_EXPORTED

    def compare(self, **query: str) -> str:
        """Nowhere: which jobs are compared is chosen in a viewer."""
        return _NOT_EXPORTED

    def review(self, job: str) -> str:
        """Nowhere: a review needs a viewer that writes it down."""
        return _NOT_EXPORTED

    def review_desk(self, desk: str, **query: str) -> str:
        """Nowhere, likewise."""
        return _NOT_EXPORTED

    def settle(self, job: str) -> str:
        """Nowhere, likewise."""
        return _NOT_EXPORTED

    def settle_desk(self, desk: str) -> str:
        """Nowhere, likewise."""
        return _NOT_EXPORTED

    def review_api(self, desk: str) -> str:
        """Nowhere, likewise."""
        return _NOT_EXPORTED

    def _to(self, file: PurePosixPath | None) -> str:
        return quote(posixpath.relpath(file, self.here.parent)) if file else _NOT_EXPORTED
