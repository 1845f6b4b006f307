"""What to do about a trial that does not count, in words for a person."""

import shlex
from pathlib import Path

from seatrial.model.job import JobFile
from seatrial.store.census import Uncounted
from seatrial.store.revisions import revision_name
from seatrial.store.setting_aside import DAMAGED

_JUDGE_AGAIN = "`seatrial regrade` judges the trial again"


def explain(job: Path, file: JobFile, found: Uncounted) -> str:
    """What is the matter with a trial of a job that does not count, and what to do about it."""
    if found.revision:
        name = revision_name(found.trial_id, found.revision)
        return f"revision {name} does not count: {found.reason}; the one before it does; {_JUDGE_AGAIN}"
    return f"{found.trial_id} does not count: {found.reason}; {_advice(job, file, found)}"


def _advice(job: Path, file: JobFile, found: Uncounted) -> str:
    if not found.planned:
        return f"it is no trial of this job, so move it out of {job / 'trials'}"
    if file.driver == "environment":
        return "evaluate again with `resume=True`, which keeps what is there and runs the trial again"
    if file.driver == "import":
        return "import the job again, into another folder"
    resume = shlex.join(("seatrial", "resume", str(job)))
    return f"`{resume}` keeps what is there in {DAMAGED}/ and runs the trial again"
