"""What tests of regrades share: a finished job, and verdicts that come from memory."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from seatrial.jobs.prepare import prepare_job
from seatrial.model.job import JobSpec
from seatrial.model.record import Provenance, TrialRecord
from seatrial.tasks.layout import digest_folder
from seatrial.trial.regrade import RegradeSpec
from tests.jobs.samples import evaluation, record
from tests.store.test_drafts import revision

Act = Callable[[RegradeSpec], float]


class FakeRegrades:
    """Judges in memory: `act` says what a trial gets. Keeps what it was asked to judge.

    With `stop`, the second trial never comes to its end: that is called instead.
    """

    def __init__(self) -> None:
        self.asked: list[RegradeSpec] = []
        self.act: Act = lambda _: 0.5
        self.stop: Callable[[], object] | None = None

    async def __call__(self, regrade: RegradeSpec, _: object, folder: Path, observe: object) -> TrialRecord:
        self.asked.append(regrade)
        (folder / "verifier").mkdir()
        if self.stop and len(self.asked) == 2:
            self.stop()
            await asyncio.Event().wait()
        reward = self.act(regrade)
        made = revision(regrade.revision, reward, regrade.id)
        first = regrade.trial.record
        update = {"revision": regrade.revision, "parent": regrade.parent, "regrade": made.regrade}
        return first.model_copy(update={**update, "evaluation": evaluation(reward)})

    @property
    def ids(self) -> list[str]:
        return [each.spec.trial_id for each in self.asked]


def finish_job(spec: JobSpec, folder: Path) -> Path:
    """A new job whose trials have passed all at once."""
    store = prepare_job(spec, folder).store
    for task in store.file.tasks:
        rests_on = Provenance(tests_digest=digest_folder(Path(task.root) / "tests"))
        made = record(task.id, job=store.file.spec.name, job_id=store.file.id, provenance=rests_on)
        with store.draft(made.trial_id) as draft:
            draft.commit(made.model_copy(update={"task": made.task.model_copy(update={"digest": task.digest})}))
    return folder
