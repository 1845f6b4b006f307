"""What a job amounts to: a tally for each of its agents and one of all, and why trials could not be run."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from seatrial.analysis.finished import Finished
from seatrial.analysis.gathered import Gathered, gather, together
from seatrial.analysis.tally import Tally, tally_json, tally_of
from seatrial.jobs.plan import LeftOutCount, count_left_out
from seatrial.model.evaluation import NEEDS_SYSTEM
from seatrial.model.job import JobFile

_VARYING = re.compile(r"[0-9a-f]{8,}|\d+")


@dataclass(frozen=True, slots=True)
class FailureCount:
    """How many trials could not be run for one reason, and the first of them."""

    reason: str
    trials: int
    example: str


@dataclass(frozen=True)
class JobSummary:
    """A job per agent, in the order of its spec, and as a whole; `left_out` are chosen tasks without trials.

    `broken_tasks` are those of which no trial counts, because their verifier has no verdict on anything untouched.
    `system_tasks` need the system as the agent left it: their own solution passes on no other.
    `failures` say why trials could not be run, the most frequent reason first.
    """

    agents: Mapping[str, Tally]
    count_all: Callable[[], Tally] = field(compare=False, repr=False)
    left_out: tuple[LeftOutCount, ...] = ()
    broken_tasks: tuple[str, ...] = ()
    system_tasks: tuple[str, ...] = ()
    failures: tuple[FailureCount, ...] = ()

    @cached_property
    def total(self) -> Tally:
        """All trials together; counted when it is asked for, since a table of agents needs none of it."""
        return self.count_all()

    @property
    def open(self) -> int:
        """Trials of all agents that were planned and have no record yet."""
        return sum(tally.open for tally in self.agents.values())


def alike(text: str) -> str:
    """What is the same in two messages that differ only in numbers and in random names."""
    return _VARYING.sub("#", text)


def planned_trials(file: JobFile) -> dict[str, int]:
    """How many trials a job wants of each of its agents: of every task but those that are left out for it."""
    without = Counter(entry.agent for entry in file.left_out)
    tasks, attempts = len(file.tasks), file.spec.attempts
    return {agent.title: (tasks - without[agent.title]) * attempts for agent in file.spec.agents}


def summarise_job(entries: Iterable[Finished], file: JobFile, planned: Mapping[str, int] | None = None) -> JobSummary:
    """Count the finished trials of a stored job, and what it has no trials of. `planned` is for a part of them."""
    summary = summarise(entries, planned_trials(file) if planned is None else planned)
    return replace(summary, left_out=count_left_out(file.left_out))


def summarise(entries: Iterable[Finished], planned: Mapping[str, int]) -> JobSummary:
    """Count finished trials per agent; `planned` says how many there are to be. Agents not in it come last.

    A verifier that has no verdict even on an untouched system is broken: no trial of its task is scored, not even one
    that it was content with.
    """
    groups: dict[str, list[Finished]] = defaultdict(list)
    for entry in entries:
        groups[entry.agent].append(entry)
    names = [*planned, *sorted(set(groups).difference(planned))]
    everything = [entry for group in groups.values() for entry in group]
    broken = frozenset([entry.task_id for entry in everything if entry.broken])
    again = [entry for entry in everything if entry.revision]
    were = frozenset([entry.task_id for entry in everything if _first_broken(entry)]) if again else broken
    gathered = {name: gather(groups.get(name, []), broken) for name in names}
    agents = {name: tally_of(found, planned.get(name, 0), were) for name, found in gathered.items()}
    count_all = partial(_count_all, [*gathered.values()], sum(planned.values()), were)
    system = tuple(sorted({entry.task_id for entry in everything if NEEDS_SYSTEM in entry.warnings}))
    return JobSummary(agents, count_all, (), tuple(sorted(broken)), system, count_failures(everything))


def _count_all(gathered: Sequence[Gathered], planned: int, were_broken: Collection[str]) -> Tally:
    return tally_of(together(gathered), planned, were_broken)


def count_failures(entries: Iterable[Finished]) -> tuple[FailureCount, ...]:
    """Why trials could not be run; reasons that differ only in numbers and random names count as one."""
    groups: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for entry in entries:
        if entry.failure is not None and entry.outcome == "infrastructure_error":
            groups[alike(entry.failure)].append((entry.failure, entry.trial_id))
    counts = [FailureCount(group[0][0], len(group), group[0][1]) for group in groups.values()]
    return tuple(sorted(counts, key=lambda count: -count.trials))


def _first_broken(entry: Finished) -> bool:
    return entry.first_broken if entry.revision else entry.broken


def summary_json(summary: JobSummary) -> dict[str, Any]:
    """A summary as programs get it."""
    agents = {name: tally_json(tally) for name, tally in summary.agents.items()}
    left_out = [asdict(count) for count in summary.left_out]
    found = {"agents": agents, "total": tally_json(summary.total), "left_out": left_out}
    failures = [asdict(count) for count in summary.failures]
    tasks = {"broken_tasks": list(summary.broken_tasks), "system_tasks": list(summary.system_tasks)}
    return {**found, **tasks, "failures": failures}
