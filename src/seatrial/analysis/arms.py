"""Arms: what is compared, ranked and drawn. Each is one agent of one job, with its trials."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from seatrial.analysis.loaded import LoadedJob
from seatrial.analysis.notebook import TALLY_COLUMNS, html_table, tally_rows
from seatrial.analysis.pool import Pool
from seatrial.analysis.tally import Tally
from seatrial.stats.attempts import Attempts
from seatrial.store.index import TrialEntry


@dataclass(frozen=True, repr=False)
class Arm:
    """One agent of one job. `label` is what it is called among the arms it is shown with."""

    label: str
    job: LoadedJob
    agent: str
    planned: int
    trials: tuple[TrialEntry, ...]

    @cached_property
    def pool(self) -> Pool:
        """Its trials, to be counted together."""
        return Pool(self.planned, self.trials)

    @property
    def scored(self) -> tuple[TrialEntry, ...]:
        """The trials that were judged."""
        return self.pool.scored

    @property
    def rewards(self) -> dict[str, list[float]]:
        """The rewards of its scored trials, task by task."""
        return self.pool.rewards

    @property
    def attempts(self) -> dict[str, Attempts]:
        """How often each task was judged, and how often it passed."""
        return self.pool.attempts

    @property
    def tally(self) -> Tally:
        """Its trials, counted."""
        return self.job.summary.agents[self.agent]

    def __repr__(self) -> str:
        mean = "no mean" if self.tally.mean is None else f"mean {self.tally.mean:.3f}"
        return f"<Arm {self.label!r} of {self.job.name!r}: {len(self.trials):,} of {self.planned:,} trials, {mean}>"

    def _repr_html_(self) -> str:
        return html_table(self.job.name, TALLY_COLUMNS, tally_rows({self.label: self.tally}))

    @cached_property
    def planned_tasks(self) -> dict[str, int]:
        """How many trials of each task are planned, finished or not; of a filtered job, how many of those fit."""
        if self.job.planned_tasks is not None:
            return dict(self.job.planned_tasks.get(self.agent, {}))
        file = self.job.file
        without = {entry.task for entry in file.left_out if entry.agent == self.agent}
        return {task.id: file.spec.attempts for task in file.tasks if task.id not in without}


def arms_of(jobs: Sequence[LoadedJob]) -> list[Arm]:
    """The agents of jobs in the order of the jobs and their specs, each with a label that no other has."""
    pairs = [(job, agent) for job in jobs for agent in job.summary.agents]
    labels = _labels(pairs)
    trials = [_by_agent(job) for job in jobs]
    places = {id(job): found for job, found in zip(jobs, trials, strict=True)}
    return [
        Arm(label, job, agent, job.summary.agents[agent].planned, tuple(places[id(job)].get(agent, ())))
        for label, (job, agent) in zip(labels, pairs, strict=True)
    ]


def _by_agent(job: LoadedJob) -> dict[str, list[TrialEntry]]:
    found: dict[str, list[TrialEntry]] = defaultdict(list)
    for trial in job.trials:
        found[trial.agent].append(trial)
    return found


def _labels(pairs: Iterable[tuple[LoadedJob, str]]) -> list[str]:
    """The agent's name alone where that says it, else with the job's, else with the job's folder, else numbered."""
    pairs = list(pairs)
    agents = Counter(agent for _, agent in pairs)
    named = Counter((job.name, agent) for job, agent in pairs)
    labels = []
    for job, agent in pairs:
        if agents[agent] == 1:
            labels.append(agent)
        else:
            labels.append(f"{agent} ({job.name if named[job.name, agent] == 1 else job.path})")
    seen: Counter[str] = Counter()
    for index, label in enumerate(labels):
        seen[label] += 1
        if seen[label] > 1:
            labels[index] = f"{label} #{seen[label]}"
    return labels
