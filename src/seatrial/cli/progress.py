"""How a job is watched: a live display on a terminal, lines in a pipe, JSON for programs, or nothing but the end.

No display may raise while the job runs: it goes on even if the reader or the terminal is gone. The live display is in
`live_display`, since rich is slow to import.
"""

import datetime as dt
import json
import logging
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import click

from seatrial.analysis.figures import SCORED, RunningMean
from seatrial.analysis.summary import JobSummary, alike, summary_json
from seatrial.cli.job_view import show_summary
from seatrial.cli.program import command_line
from seatrial.cli.screen import SEVERITY_COLOURS, can_draw, paint, paint_outcome
from seatrial.model.events import Notice
from seatrial.model.job import ModelOptions
from seatrial.model.outcome import Outcome, format_reward
from seatrial.model.record import TrialRecord
from seatrial.report.reasons import NO_LIMITS, failure_in_words, reason, remarks
from seatrial.report.text import counted, format_duration, harmless
from seatrial.store.index import TrialEntry
from seatrial.trial.events import (
    Event,
    PhaseStarted,
    RolloutFinished,
    TrialFinished,
    TrialPassedOver,
    TrialRetried,
    TrialStarted,
)

# The board: what is known about a running job, cheap however large the job is.


@dataclass(frozen=True, slots=True)
class RunningTrial:
    """A trial that has been started."""

    trial_id: str
    since: float
    """The clock when it was started."""
    agent: str = ""
    phase: str = "waiting"
    tries: int = 1
    node: str | None = None


class Board:
    """Counts and running trials, kept up by events. `earlier` are the results a resumed job has already."""

    def __init__(self, planned: int, earlier: Iterable[TrialEntry], now: float) -> None:
        self.planned = planned
        self.running: dict[str, RunningTrial] = {}
        self.counts: Counter[Outcome] = Counter()
        self.unjudged = 0
        self.retries = 0
        self.cost_usd: float | None = None
        self._begun = now
        self._means: dict[str, RunningMean] = defaultdict(RunningMean)
        for entry in earlier:
            self._count(entry.agent, entry.task_id, entry.outcome, entry.reward)
            self._pay(entry.cost_usd)
            self._pay(entry.verifier_cost_usd)
        self._before = self.finished

    @property
    def finished(self) -> int:
        """How many trials have a record, or rollouts an output."""
        return self.counts.total() + self.unjudged

    def means(self) -> dict[str, float]:
        """The mean reward so far, over tasks, of each agent that has scored trials."""
        return {agent: mean.value for agent, mean in sorted(self._means.items())}

    def elapsed_sec(self, now: float) -> float:
        return now - self._begun

    def remaining_sec(self, now: float) -> float | None:
        """How long the rest takes if it goes on as it did; None while nothing has finished."""
        done = self.finished - self._before
        return self.elapsed_sec(now) / done * max(0, self.planned - self.finished) if done else None

    def apply(self, event: Event, now: float) -> None:
        match event:
            case TrialStarted(trial_id=trial_id, agent=agent, tries=tries, node=node):
                self.running[trial_id] = RunningTrial(trial_id, now, agent, tries=tries, node=node)
            case PhaseStarted(trial_id=trial_id, phase=phase, step=step):
                trial = self.running.get(trial_id) or RunningTrial(trial_id, now)
                self.running[trial_id] = replace(trial, phase=f"{phase} ({step})" if step else phase)
            case TrialRetried(trial_id=trial_id):
                self.retries += 1
                self.running.pop(trial_id, None)
            case TrialPassedOver(trial_id=trial_id):
                self.running.pop(trial_id, None)
            case RolloutFinished():
                self._end_rollout(event)
            case TrialFinished(record=record):
                trial = self.running.pop(record.trial_id, RunningTrial(record.trial_id, now, record.agent.name))
                reward = record.evaluation.reward if record.evaluation else None
                self._count(trial.agent, record.task.id, record.outcome, reward)
                if record.model_usage and not record.regrade:  # what is judged again was paid for long ago
                    self._pay(record.model_usage.cost_usd)
                if record.verifier_usage:
                    self._pay(record.verifier_usage.cost_usd)

    def _end_rollout(self, event: RolloutFinished) -> None:
        if event.outcome is None:
            self.unjudged += 1
        else:
            self._count(event.agent, event.rollout_id.rpartition(".")[0], event.outcome, event.reward)

    def _count(self, agent: str, task: str, outcome: Outcome, reward: float | None) -> None:
        self.counts[outcome] += 1
        if outcome in SCORED and reward is not None:
            self._means[agent].add(task, reward)

    def _pay(self, cost_usd: float | None) -> None:
        """Add to `cost_usd`, what is known to be spent; None while nothing is."""
        if cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + cost_usd


# Lines for trials. A long reason is printed in full once; trials that end for the same reason refer to the first.

_OUTCOME_WIDTH = len("infrastructure_error")
_REWARD_WIDTH, _TIME_WIDTH = 6, 8
_LONG = 60


class TrialLines:
    """Writes the lines of one job. `limits` are those of its models."""

    def __init__(self, limits: ModelOptions = NO_LIMITS) -> None:
        self._limits = limits
        self._first: dict[str, str] = {}

    def finished(self, record: TrialRecord) -> str:
        return self._columns_of(record) + self._explained(record.trial_id, reason(record, self._limits))

    def noteworthy(self, record: TrialRecord) -> str | None:
        """A finished trial that would be lost among counts: one that was not scored, or one with remarks.

        None for all others, and for one that has the same long reason as an earlier one.
        """
        why = reason(record, self._limits) if record.outcome not in SCORED else "; ".join(remarks(record))
        if not why or self._first.get(alike(why), record.trial_id) != record.trial_id:
            return None
        return self._columns_of(record) + self._explained(record.trial_id, why)

    def rollout(self, event: RolloutFinished) -> str:
        columns = _columns(event.outcome or "not judged", format_reward(event.reward), format_duration(event.seconds))
        return columns + self._explained(event.rollout_id, event.reason)

    def noteworthy_rollout(self, event: RolloutFinished) -> str | None:
        """A finished rollout with a reason that has not been told yet."""
        if not event.reason or self._first.get(alike(event.reason), event.rollout_id) != event.rollout_id:
            return None
        return self.rollout(event)

    def retried(self, event: TrialRetried) -> str:
        columns = _columns("trying again", "", f"try {event.tries + 1}")
        return columns + self._explained(event.trial_id, failure_in_words(event.failure))

    def passed_over(self, event: TrialPassedOver) -> str:
        return _columns("not judged again", "", "") + self._explained(event.trial_id, event.reason)

    def _columns_of(self, record: TrialRecord) -> str:
        judged = record.evaluation if record.outcome != "verifier_error" else None
        reward = format_reward(judged.reward if judged else None)
        return _columns(record.outcome, reward, format_duration(_took(record)))

    def _explained(self, trial_id: str, why: str) -> str:
        if not why:
            return harmless(trial_id)
        first = self._first.get(alike(why))
        if first is None and len(why) > _LONG:
            self._first[alike(why)] = trial_id
        told = why if first is None else "the same again" if first == trial_id else f"the same as {first}"
        return harmless(f"{trial_id}: {told}")


def _columns(outcome: str, reward: str, time: str) -> str:
    space = " " * (_OUTCOME_WIDTH - len(outcome))
    return f"{paint_outcome(outcome)}{space} {reward:>{_REWARD_WIDTH}} {time:>{_TIME_WIDTH}}  "


def _took(record: TrialRecord) -> float | None:
    if record.regrade:
        return (record.regrade.finished_at - record.regrade.started_at).total_seconds()
    started = min((phase.started_at for phase in record.times), default=None)
    ended = max((phase.finished_at for phase in record.times), default=None)
    return (ended - started).total_seconds() if started and ended else None


# Displays

_log = logging.getLogger(__name__)

Ended = Literal[
    "complete", "trial budget", "wall budget", "agent warnings", "interrupted", "failed", "not started", "refused"
]


class Beginning(NamedTuple):
    """What a display needs to know before anything happens."""

    name: str
    folder: Path
    planned: int
    earlier: Sequence[TrialEntry] = ()
    """Results there are already."""
    limits: ModelOptions = NO_LIMITS
    """Those of the agents' models."""
    unit: Literal["trial", "rollout"] = "trial"
    """What is planned. No event says when a rollout starts."""


class Ending(NamedTuple):
    """How a job ended."""

    folder: Path
    ended: Ended
    summary: JobSummary | None
    """None after an error."""
    reasons: Sequence[str]
    """Why the exit code is what it is."""
    exit_code: int
    go_on: str | None = None
    """How to continue one that was stopped, where that is not by `seatrial resume`."""


class Display(Protocol):
    """Somebody who is told about a job. `close` is called once, before `conclude`, however the job ends."""

    def begin(self, job: Beginning) -> None:
        """The job is about to start."""
        ...

    def observe(self, event: Event) -> None:
        """Something happened. Never raises."""
        ...

    def close(self) -> None:
        """Nothing more will happen."""
        ...

    def conclude(self, end: Ending) -> None:
        """The job has ended."""
        ...


def choose_display(*, as_json: bool, quiet: bool) -> Display:
    if as_json:
        return JsonDisplay()
    if quiet:
        return QuietDisplay()
    if can_draw(sys.stdout):
        from seatrial.cli.live_display import LiveDisplay  # noqa: PLC0415 - rich is slow to import

        return LiveDisplay()
    return LinesDisplay()


class Telling:
    """Calls a function with events until it fails once: a reader who has gone away must not stop the job."""

    def __init__(self, tell: Callable[[Event], None]) -> None:
        self._tell: Callable[[Event], None] | None = tell

    def __call__(self, event: Event) -> None:
        if self._tell is None:
            return
        try:
            self._tell(event)
        except OSError:  # the reader or the terminal has gone
            self._tell = None
        except Exception:  # noqa: BLE001 - whatever it is, it is no concern of the trials
            self._tell = None
            _log.exception("the display failed and is off from now on; the job goes on")


class QuietDisplay:
    """Says nothing until the end."""

    def begin(self, job: Beginning) -> None:
        pass

    def observe(self, event: Event) -> None:
        pass

    def close(self) -> None:
        pass

    def conclude(self, end: Ending) -> None:
        conclude_in_words(end)


class LinesDisplay:
    """One line for each trial that finishes or has to be started again, for pipes and logs."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.observe: Callable[[Event], None] = Telling(self._line)

    def begin(self, job: Beginning) -> None:
        self._board = Board(job.planned, job.earlier, self._clock())
        self._lines = TrialLines(job.limits)
        before = f", {self._board.finished:,} of them finished before" if self._board.finished else ""
        click.echo(f"{job.folder}: {counted(job.planned, job.unit)}{before}")

    def _line(self, event: Event) -> None:
        self._board.apply(event, self._clock())
        if isinstance(event, TrialFinished):
            click.echo(f"{self._position()} {self._lines.finished(event.record)}")
        elif isinstance(event, RolloutFinished):
            click.echo(f"{self._position()} {self._lines.rollout(event)}")
        elif isinstance(event, TrialRetried):
            click.echo(f"{self._position()} {self._lines.retried(event)}")
        elif isinstance(event, TrialPassedOver):
            click.echo(f"{self._position()} {self._lines.passed_over(event)}")
        elif isinstance(event, Notice):
            click.echo(notice_line(event))

    def _position(self) -> str:
        planned = str(self._board.planned)
        return f"[{self._board.finished:>{len(planned)}}/{planned}]"

    def close(self) -> None:
        pass

    def conclude(self, end: Ending) -> None:
        conclude_in_words(end)


class JsonDisplay:
    """Prints each event as a line of JSON as soon as it happens, and nothing else."""

    def __init__(self) -> None:
        self._agents: dict[str, str] = {}
        self.observe: Callable[[Event], None] = Telling(self._event)

    def begin(self, job: Beginning) -> None:
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
        pass

    def conclude(self, end: Ending) -> None:
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
        "verifier_usage": record.verifier_usage.model_dump(mode="json") if record.verifier_usage else None,
    }


def write_event(event: str, **values: Any) -> None:
    """Print a line for a program to read."""
    now = dt.datetime.now(dt.UTC).isoformat()
    # ASCII only: a stranger's text may have characters that steer a terminal and that JSON would let through.
    click.echo(json.dumps({"event": event, "time": now, **values}))


def notice_line(notice: Notice) -> str:
    """What the user should know; loud if it speaks against results that are being made."""
    text = harmless(notice.text)
    return paint(text, SEVERITY_COLOURS["warning"], bold=True) if notice.urgent else text


def conclude_in_words(end: Ending) -> None:
    """The summary, why the exit code is what it is, and what to do next."""
    if end.summary is not None:
        show_summary(end.summary)
        for reason in end.reasons:
            click.echo(reason, err=True)
    if end.ended in _SAID:
        click.echo(_SAID[end.ended], err=True)
    elif end.ended == "complete":
        click.echo(f"Look at it with: {command_line('show', str(end.folder))}", err=True)
    else:
        go_on = end.go_on or f"Continue with: {command_line('resume', str(end.folder))}"
        click.echo(f"{_STOPPED[end.ended]} {go_on}", err=True)


_STOPPED = {
    "trial budget": "Stopped: as many trials as --max-trials allows have been started.",
    "wall budget": "Stopped: the time that --max-wall allows is over.",
    "interrupted": "Interrupted. Finished trials are kept.",
    "failed": "Stopped by an error. Finished trials are kept.",
}
# What is to be done then depends on the reason, which has been told.
_SAID = {
    "agent warnings": "Stopped: an agent never really ran.",
    "not started": "Nothing was run.",
    "refused": "Nothing was run, and no job was made.",
}
