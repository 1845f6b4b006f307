"""The trials of an arm that are planned and have no record: reports for build servers list them as skipped."""

from seatrial.analysis.arms import Arm
from seatrial.analysis.loaded import planned_entries
from seatrial.store.index import TrialEntry


def open_trials(arm: Arm) -> list[TrialEntry]:
    """What has not been run, as entries that were never tried; none where a filter asks what became of trials."""
    job = arm.job
    if not job.filter.is_planned:
        return []
    finished = {trial.trial_id for trial in arm.trials}
    planned = planned_entries(job.file, [agent for agent in job.file.spec.agents if agent.title == arm.agent])
    waiting = (trial for trial in planned if trial.trial_id not in finished)
    return [trial for trial in waiting if job.filter.fits(trial, job.labels_of(trial.task_id))]
