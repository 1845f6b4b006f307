"""What is known about a running job at any moment: the state behind every display, cheap however large the job is."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from seatrial.analysis.finished import Finished
from seatrial.analysis.tally import SCORED
from seatrial.model.record import Outcome
from seatrial.trial.events import (
    Event,
    PhaseStarted,
    RolloutFinished,
    TrialFinished,
    TrialPassedOver,
    TrialRetried,
    TrialStarted,
)


@dataclass(frozen=True, slots=True)
class RunningTrial:
    """A trial that has been started; `since` is the clock when it was."""

    trial_id: str
    since: float
    agent: str = ""
    phase: str = "waiting"
    tries: int = 1
    node: str | None = None


@dataclass(slots=True)
class _Rewards:
    """The rewards of one agent, added up."""

    count: int = 0
    total: float = 0.0


class Board:
    """Counts and running trials, kept up by events. `earlier` are the results a resumed job has already."""

    def __init__(self, planned: int, earlier: Iterable[Finished], now: float) -> None:
        self.planned = planned
        self.running: dict[str, RunningTrial] = {}
        self.counts: Counter[Outcome] = Counter()
        self.unjudged = 0
        self.retries = 0
        self.cost_usd: float | None = None
        self._begun = now
        self._rewards: dict[str, _Rewards] = defaultdict(_Rewards)
        for entry in earlier:
            self._count(entry.agent, entry.outcome, entry.reward)
            self._pay(entry.cost_usd)
        self._before = self.finished

    @property
    def finished(self) -> int:
        """How many trials have a record, or rollouts an output."""
        return self.counts.total() + self.unjudged

    def means(self) -> dict[str, float]:
        """The mean reward so far of each agent that has scored trials."""
        return {agent: rewards.total / rewards.count for agent, rewards in sorted(self._rewards.items())}

    def elapsed_sec(self, now: float) -> float:
        """How long the job has been running this time."""
        return now - self._begun

    def remaining_sec(self, now: float) -> float | None:
        """How long the rest takes if it goes on as it did; None while nothing has finished."""
        done = self.finished - self._before
        return self.elapsed_sec(now) / done * max(0, self.planned - self.finished) if done else None

    def apply(self, event: Event, now: float) -> None:
        """Take note of an event."""
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
                self._count(trial.agent, record.outcome, record.evaluation.reward if record.evaluation else None)
                if record.model_usage and not record.regrade:  # what is judged again was paid for long ago
                    self._pay(record.model_usage.cost_usd)

    def _end_rollout(self, event: RolloutFinished) -> None:
        if event.outcome is None:
            self.unjudged += 1
        else:
            self._count(event.agent, event.outcome, event.reward)

    def _count(self, agent: str, outcome: Outcome, reward: float | None) -> None:
        self.counts[outcome] += 1
        if outcome in SCORED and reward is not None:
            self._rewards[agent].count += 1
            self._rewards[agent].total += reward

    def _pay(self, cost_usd: float | None) -> None:
        """Add to `cost_usd`, what is known to be spent; None while nothing is."""
        if cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + cost_usd
