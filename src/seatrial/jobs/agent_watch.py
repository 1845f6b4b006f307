"""Stopping a job whose agent never really runs, before it turns every trial that is left into a zero.

The first trials of each agent decide. One that really ran, however badly, clears the agent for the rest of the run.
"""

import shlex
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from seatrial.jobs.plan import TrialPlan
from seatrial.model.record import NEVER_RAN, TrialRecord
from seatrial.trial.events import Notice, Observer

_FIRST = 3
_ADVICE = {
    "agent_not_started": "try the command in the task's image; --agent-setup installs what it needs",
    "no_model_call": "it finds its model by the variables OPENAI_BASE_URL and OPENAI_API_KEY, ANTHROPIC's or GEMINI's",
    "calls_unanswered": "`seatrial calls {folder} {trial}` shows them",
}


class AgentWatch:
    """Takes notice of finished trials. Of a job that goes on, fewer than the usual number of trials decide nothing."""

    def __init__(self, trials: Sequence[TrialPlan], folder: Path, tell: Observer, *, resumed: bool = False) -> None:
        self._folder = folder
        self._tell = tell
        self._resumed = resumed
        self._order: dict[str, list[str]] = defaultdict(list)
        for plan in trials:
            self._order[plan.agent.title].append(plan.trial_id)
        self._ended: dict[str, Literal["never ran", "failed"]] = {}
        self._told: set[tuple[str, str]] = set()

    def note(self, plan: TrialPlan, record: TrialRecord) -> str | None:
        """Take notice of a finished trial; returns why the job should stop, None while it should go on."""
        title = plan.agent.title
        for warning in record.warnings:
            if warning.code not in NEVER_RAN:
                continue
            self._warn(title, record.trial_id, warning.code, warning.message)
        if title not in self._order:
            return None
        if record.failure is None and not record.never_ran:
            del self._order[title]
            return None
        self._ended[plan.trial_id] = "never ran" if record.never_ran else "failed"
        decisive = self._decisive(title)
        return self._reason(title, record, decisive) if decisive else None

    def _decisive(self, title: str) -> int:
        """How many of the agent's first trials have ended, none of which says that it runs; 0 while that is open.

        What a broken machine ended says nothing about an agent and is passed over.
        """
        silent = 0
        for trial_id in self._order[title]:
            if trial_id not in self._ended:
                return 0
            silent += self._ended[trial_id] == "never ran"
            if silent == _FIRST:
                return silent
        return 0 if self._resumed else silent

    def _warn(self, title: str, trial_id: str, code: str, message: str) -> None:
        if (title, code) not in self._told:
            self._told.add((title, code))
            advice = f"; {_ADVICE[code].format(folder=self._folder, trial=trial_id)}" if code in _ADVICE else ""
            self._tell(Notice(f"Warning: agent {title!r}, {code} in {trial_id}: {message}{advice}", urgent=True))

    def _reason(self, title: str, record: TrialRecord, decisive: int) -> str:
        trials = "its only trial" if decisive == 1 else f"its first {decisive} trials"
        last = record.warnings[-1] if record.warnings else None
        why = f" ({last.code}: {last.message})" if last else ""
        resume = shlex.join(("seatrial", "resume", str(self._folder)))
        return (
            f"the agent {title!r} never really ran in {trials}{why}. If its command or model is wrong, start a new "
            f"job. If something else was, correct it and run these trials again: {resume} --retry-warned. To let them "
            f"count and go on: {resume} --keep-going"
        )
