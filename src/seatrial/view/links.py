"""Where pages lead to: paths of the running viewer, or of files beside each other in an export."""

import os
from dataclasses import dataclass
from typing import ClassVar, Literal
from urllib.parse import quote, urlencode


@dataclass(frozen=True, slots=True)
class Links:
    """The paths of a running viewer. Every template gets one, as `links`; nothing else knows a path."""

    kind: ClassVar[Literal["served", "exported"]] = "served"

    def static(self, name: str) -> str:
        """A file of ours: style or script."""
        return f"/static/{quote(name)}"

    def jobs(self) -> str:
        """All jobs."""
        return "/"

    def job(self, job: str, **query: str) -> str:
        """A job by its key; the query chooses among its trials."""
        return _with(f"/jobs/{quote(job, safe='')}/", query)

    def trials_json(self, job: str, **query: str) -> str:
        """The same trials for programs."""
        return _with(f"/api/jobs/{quote(job, safe='')}/trials", query)

    def events(self, *jobs: str) -> str:
        """What happens to jobs while they run; nothing where pages are files."""
        if len(jobs) == 1:
            return f"/api/jobs/{quote(jobs[0], safe='')}/events"
        return f"/api/events?{urlencode([('job', job) for job in jobs])}"

    def trial(self, job: str, trial_id: str) -> str:
        """A trial."""
        return f"/jobs/{quote(job, safe='')}/trials/{quote(trial_id, safe='')}/"

    def file(self, job: str, trial_id: str, path: str) -> str:
        """A file of a trial's folder, shown by its format."""
        return f"{self.trial(job, trial_id)}files/{_quoted(path)}"

    def raw(self, job: str, trial_id: str, path: str) -> str:
        """The bytes of a file of a trial's folder."""
        return f"{self.trial(job, trial_id)}raw/{_quoted(path)}"

    def conversation(self, job: str, trial_id: str, step: str | None, page: int) -> str:
        """A page of a trial's conversation, or of one of its steps."""
        return _with(f"{self.trial(job, trial_id)}conversation", _turns(step, page))

    def turns(self, job: str, trial_id: str, step: str | None, page: int) -> str:
        """The turns of that page alone, to be put behind those before them."""
        path = f"/api/jobs/{quote(job, safe='')}/trials/{quote(trial_id, safe='')}/turns"
        return _with(path, _turns(step, page))

    def change(self, job: str, trial_id: str, path: str) -> str:
        """What an agent did to a file of its sandbox."""
        return _with(f"{self.trial(job, trial_id)}change", {"path": path})

    def compare(self, **query: str) -> str:
        """Two jobs, or the agents of one, side by side."""
        return _with("/compare", query)

    def review(self, job: str) -> str:
        """The review of a job."""
        return f"/review/{quote(job, safe='')}/"

    def review_desk(self, desk: str, **query: str) -> str:
        """Where a job is reviewed, by the key of its desk: nothing in it says which job it is."""
        return _with(f"/desk/{quote(desk, safe='')}/", query)

    def settle(self, job: str) -> str:
        """What the reviewers of a job disagree about."""
        return f"/settle/{quote(job, safe='')}/"

    def settle_desk(self, desk: str) -> str:
        """The same by the key of its desk."""
        return f"/desk/{quote(desk, safe='')}/settle/"

    def review_api(self, desk: str) -> str:
        """Below which the page of a desk finds what it shows, and says what reviewers said."""
        return f"/api/desk/{quote(desk, safe='')}/"


def _turns(step: str | None, page: int) -> dict[str, str]:
    return {"page": str(page), **({"step": step} if step else {})}


def _quoted(path: str) -> str:
    return quote(os.fsencode(path))  # also a name that is no UTF-8


def _with(path: str, query: dict[str, str]) -> str:
    return f"{path}?{urlencode(query)}" if query else path
