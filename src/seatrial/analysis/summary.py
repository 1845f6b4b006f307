"""What a job amounts to: the figures of each of its agents and of all, and why trials could not be run."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from seatrial.analysis.figures import Figures, Trials, as_counted, figures_of, first_broken_tasks, tally_json
from seatrial.jobs.plan import LeftOutCount, count_left_out
from seatrial.model.evaluation import NEEDS_SYSTEM
from seatrial.model.job import JobFile, LeftOut

if TYPE_CHECKING:
    from seatrial.store.index import TrialEntry

_VARYING = re.compile(r"[0-9a-f]{8,}|\d+")


@dataclass(frozen=True, slots=True)
class FailureCount:
    """How many trials could not be run for one reason, and the first of them."""

    reason: str
    trials: int
    example: str


@dataclass(frozen=True)
class JobSummary:
    """A job per agent, in the order of its spec, and as a whole."""

    agents: Mapping[str, Figures]
    everything: Trials = field(compare=False, repr=False)
    left_out: tuple[LeftOutCount, ...] = ()
    """Chosen tasks without trials."""
    broken_tasks: tuple[str, ...] = ()
    """No trial of these counts: their verifier gives no verdict even where no agent has been."""
    system_tasks: tuple[str, ...] = ()
    """These need the system as the agent left it: their own solution passes on no other."""
    failures: tuple[FailureCount, ...] = ()
    """Why trials could not be run, the most frequent reason first."""

    @cached_property
    def total(self) -> Figures:
        """All trials together; counted when it is asked for, since a table of agents needs none of it."""
        return figures_of(self.everything)

    @property
    def open(self) -> int:
        """Trials of all agents that were planned and have no record yet."""
        return sum(figures.open for figures in self.agents.values())


def alike(text: str) -> str:
    """What is the same in two messages that differ only in numbers and in random names."""
    return _VARYING.sub("#", text)


def planned_trials(file: JobFile) -> dict[str, int]:
    """How many trials a job wants of each of its agents: of every task but those that are left out for it."""
    without = Counter(entry.agent for entry in file.left_out)
    tasks, attempts = len(file.tasks), file.spec.attempts
    return {agent.title: (tasks - without[agent.title]) * attempts for agent in file.spec.agents}


def summarise_job(entries: Iterable["TrialEntry"], file: JobFile) -> JobSummary:
    """Count the finished trials of a stored job, and what it has no trials of."""
    return summarise(entries, planned_trials(file), file.left_out)


def summarise(
    entries: Iterable["TrialEntry"], planned: Mapping[str, int], left_out: Iterable[LeftOut] = ()
) -> JobSummary:
    """Count finished trials per agent; `planned` says how many there are to be."""
    return summary_of(by_agent(as_counted(entries), planned), left_out)


def by_agent(entries: Sequence["TrialEntry"], planned: Mapping[str, int]) -> dict[str, Trials]:
    """The trials of each agent, in the order of `planned`, those of other agents last."""
    groups: dict[str, list[TrialEntry]] = defaultdict(list)
    for entry in entries:
        groups[entry.agent].append(entry)
    first_broken = first_broken_tasks(entries)
    names = [*planned, *sorted(set(groups).difference(planned))]
    return {name: Trials(tuple(groups.get(name, ())), planned.get(name, 0), first_broken) for name in names}


def summary_of(agents: Mapping[str, Trials], left_out: Iterable[LeftOut]) -> JobSummary:
    """A job by the trials of its agents, and by what it has no trials of."""
    entries = [entry for trials in agents.values() for entry in trials.entries]
    first_broken = next((trials.first_broken for trials in agents.values()), None)
    return JobSummary(
        agents={name: figures_of(trials) for name, trials in agents.items()},
        everything=Trials(entries, sum(trials.planned for trials in agents.values()), first_broken),
        left_out=count_left_out(left_out),
        broken_tasks=tuple(sorted({entry.task_id for entry in entries if entry.broken})),
        system_tasks=tuple(sorted({entry.task_id for entry in entries if NEEDS_SYSTEM in entry.warnings})),
        failures=count_failures(entries),
    )


def count_failures(entries: Iterable["TrialEntry"]) -> tuple[FailureCount, ...]:
    """Why trials could not be run; reasons that differ only in numbers and random names count as one."""
    groups: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for entry in entries:
        if entry.failure is not None and entry.outcome == "infrastructure_error":
            groups[alike(entry.failure)].append((entry.failure, entry.trial_id))
    counts = [FailureCount(group[0][0], len(group), group[0][1]) for group in groups.values()]
    return tuple(sorted(counts, key=lambda count: -count.trials))


def summary_json(summary: JobSummary) -> dict[str, Any]:
    agents = {name: tally_json(figures) for name, figures in summary.agents.items()}
    left_out = [asdict(count) for count in summary.left_out]
    found = {"agents": agents, "total": tally_json(summary.total), "left_out": left_out}
    failures = [asdict(count) for count in summary.failures]
    tasks = {"broken_tasks": list(summary.broken_tasks), "system_tasks": list(summary.system_tasks)}
    return {**found, **tasks, "failures": failures}
