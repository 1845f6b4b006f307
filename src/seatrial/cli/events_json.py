"""A job as a stream of JSON, one object per line, for programs: everything that happens, and nothing else on stdout."""

import datetime as dt
import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import click

from seatrial.analysis.summary import summary_json
from seatrial.cli.progress import Beginning, Ending, Telling
from seatrial.model.record import TrialRecord
from seatrial.trial.events import (
    Event,
    Notice,
    PhaseStarted,
    RolloutFinished,
    TrialFinished,
    TrialPassedOver,
    TrialRetried,
    TrialStarted,
)


class JsonDisplay:
    """Writes each event as soon as it happens."""

    def __init__(self) -> None:
        self._agents: dict[str, str] = {}
        self.observe: Callable[[Event], None] = Telling(self._event)

    def begin(self, job: Beginning) -> None:
        """The first line."""
        write_event("job_started", job=job.name, folder=str(job.folder), planned=job.planned, finished=len(job.earlier))

    def _event(self, event: Event) -> None:
        match event:
            case TrialStarted(trial_id=trial_id, agent=agent):
                self._agents[trial_id] = agent
                write_event("trial_started", **asdict(event))
            case PhaseStarted(trial_id=trial_id, phase=phase, step=step):
                write_event("phase", trial_id=trial_id, phase=phase, step=step)
            case TrialRetried(trial_id=trial_id, tries=tries, failure=failure):
                write_event("retry", trial_id=trial_id, tries=tries, failure=failure.model_dump(mode="json"))
            case TrialPassedOver(trial_id=trial_id, reason=reason):
                self._agents.pop(trial_id, None)
                write_event("trial_passed_over", trial_id=trial_id, reason=reason)
            case RolloutFinished():
                write_event("rollout_finished", **asdict(event))
            case Notice(text=text, urgent=urgent):
                write_event("notice", text=text, urgent=urgent)
            case TrialFinished(record=record):
                agent = self._agents.pop(record.trial_id, record.agent.name)
                write_event("trial_finished", **_finished(record, agent))

    def close(self) -> None:
        """There is nothing to put away."""

    def conclude(self, end: Ending) -> None:
        """The last line."""
        write_event(
            "job_finished",
            folder=str(end.folder),
            ended=end.ended,
            exit_code=end.exit_code,
            reasons=list(end.reasons),
            summary=summary_json(end.summary) if end.summary else None,
        )


def _finished(record: TrialRecord, agent: str) -> dict[str, Any]:
    return {
        "trial_id": record.trial_id,
        "task_id": record.task.id,
        "agent": agent,
        "attempt": record.attempt,
        "revision": record.revision,
        "tries": record.tries,
        "node": record.node,
        "outcome": record.outcome,
        "reward": record.evaluation.reward if record.evaluation else None,
        "failure": record.failure.model_dump(mode="json") if record.failure else None,
        "warnings": [warning.model_dump(mode="json") for warning in record.warnings],
        "usage": record.model_usage.model_dump(mode="json") if record.model_usage else None,
    }


def write_event(event: str, **values: Any) -> None:
    """Print a line for a program to read."""
    now = dt.datetime.now(dt.UTC).isoformat()
    # ASCII only: a stranger's text may have characters that steer a terminal and that JSON would let through.
    click.echo(json.dumps({"event": event, "time": now, **values}))
