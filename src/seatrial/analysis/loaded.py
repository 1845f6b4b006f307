"""A stored job as analyses need it: read once, with what counts already decided."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seatrial.analysis.filters import EVERY_TRIAL, NO_LABELS, Filter, parse_filter
from seatrial.analysis.gathered import counted_outcome
from seatrial.analysis.notebook import TALLY_COLUMNS, html_table, tally_rows
from seatrial.analysis.reviewed import Reviews, human_tags, reviewed_record, reviewer_agreement
from seatrial.analysis.summary import JobSummary, summarise_job
from seatrial.errors import JobError
from seatrial.jobs.plan import plan_trials
from seatrial.model.annotation import Annotation
from seatrial.model.job import AgentOptions, JobFile, TaskLabels
from seatrial.model.record import TrialRecord
from seatrial.model.review import ReviewEntry
from seatrial.stats.raters import RaterAgreement
from seatrial.store.census import Uncounted
from seatrial.store.index import TrialEntry
from seatrial.store.job_store import JobStore

if TYPE_CHECKING:
    import pandas as pd

    from seatrial.analysis.arms import Arm
    from seatrial.analysis.compare import Comparable
    from seatrial.analysis.compare_jobs import ComparisonSet


@dataclass(frozen=True, repr=False)
class LoadedJob:
    """A job and its finished trials, as they were when it was read.

    A trial of a task whose verifier is broken has the outcome `verifier_error`, whatever that verifier said of it.
    What reviewers said went wrong is among the tags of trials; `untagged` are all trials without that.

    With a `filter`, `trials` are only those that fit it, `finished` is how many the job has, and `planned` counts per
    agent, and `planned_tasks` also per task, the trials that are planned and fit. By what a trial became only finished
    ones can be asked: then as many are planned as fit, and none is open.
    """

    store: JobStore
    trials: tuple[TrialEntry, ...]
    uncounted: tuple[Uncounted, ...]
    filter: Filter = EVERY_TRIAL
    finished: int = 0
    planned: Mapping[str, int] | None = None
    planned_tasks: Mapping[str, Mapping[str, int]] | None = None
    untagged: tuple[TrialEntry, ...] = ()

    @property
    def file(self) -> JobFile:
        """What was asked for, and which tasks that meant."""
        return self.store.file

    @property
    def name(self) -> str:
        """How the job is called."""
        return self.file.spec.name

    @property
    def path(self) -> Path:
        """Its folder."""
        return self.store.path

    @property
    def threshold(self) -> float:
        """The reward from which on a trial has passed, unless it was judged again with another."""
        return self.file.spec.trial.pass_threshold

    def threshold_of(self, trial: TrialEntry) -> float:
        """The reward from which on a trial has passed, by its verdict that counts."""
        return self.threshold if trial.pass_threshold is None else trial.pass_threshold

    @cached_property
    def thresholds(self) -> tuple[float, ...]:
        """Those of its trials: several where some were judged again with another; of no trials the job's."""
        found = {trial.pass_threshold for trial in self.trials} or {None}
        return tuple(sorted(self.threshold if each is None else each for each in found))

    @cached_property
    def summary(self) -> JobSummary:
        """Counts and means for each agent and for all."""
        return summarise_job(self.trials, self.file, self.planned)

    @property
    def shown(self) -> str | None:
        """Which trials these are of how many, where a filter left some out; None without one."""
        if not self.filter:
            return None
        return f"{len(self.trials):,} of {self.finished:,} finished trials, those where {self.filter}"

    @cached_property
    def labels(self) -> dict[str, TaskLabels]:
        """By what its tasks are grouped."""
        return {task.id: task.labels for task in self.file.tasks}

    @cached_property
    def digests(self) -> dict[str, str]:
        """Which contents its tasks have."""
        return {task.id: task.digest for task in self.file.tasks}

    def labels_of(self, task_id: str) -> TaskLabels:
        """By what a task is grouped."""
        return self.labels.get(task_id, NO_LABELS)

    @cached_property
    def arms(self) -> "list[Arm]":
        """Its agents, each with its trials."""
        from seatrial.analysis.arms import arms_of  # noqa: PLC0415 - arms are made of loaded jobs

        return arms_of([self])

    @cached_property
    def annotations(self) -> dict[str, list[Annotation]]:
        """What reviewers said of its trials, by their ids."""
        return self.store.annotations()

    @cached_property
    def reviews(self) -> dict[str, list[ReviewEntry]]:
        """The whole journal of reviews: how each verdict came about, also of those that were taken back."""
        return self.store.reviews()

    @cached_property
    def agreement(self) -> RaterAgreement:
        """How far its reviewers agree, by what each said first."""
        return reviewer_agreement(self.reviews)

    def record(self, trial_id: str) -> TrialRecord:
        """Everything about one trial, with what reviewers said of it: verdicts, tags, and how far they agree.

        Raises JobError when there is no such trial.
        """
        record = self.store.revisions(trial_id)[-1].record
        entries = self.reviews.get(trial_id)
        return reviewed_record(record, entries, self.agreement) if entries else record

    def to_pandas(self) -> "pd.DataFrame":
        """A DataFrame with a row for each trial; docs/python.md names its columns. Raises UsageError without pandas."""
        from seatrial.analysis.frames import trial_frame  # noqa: PLC0415 - made of loaded jobs

        return trial_frame(self)

    def compare(self, other: "Comparable | None" = None, **options: Any) -> "ComparisonSet":
        """Compare another job with this one, or without another its own agents. Options are those of `compare`."""
        from seatrial.analysis.compare import compare  # noqa: PLC0415 - it compares loaded jobs

        return compare(self, other, **options)

    def __repr__(self) -> str:
        planned = sum(tally.planned for tally in self.summary.agents.values())
        trials = f"{len(self.trials):,} of {planned:,} trials"
        return f"<LoadedJob {self.name!r}: {len(self.summary.agents):,} agents, {trials}>"

    def _repr_html_(self) -> str:
        notes = [self.shown] if self.shown else []
        title = f"{self.name}: tasks {len(self.file.tasks):,}, attempts {self.file.spec.attempts:,}"
        return html_table(title, TALLY_COLUMNS, tally_rows(self.summary.agents), notes)

    def where(self, *filters: str) -> "LoadedJob":
        """The job with only the trials that fit, such as `where("outcome=fail,task=sort-*")`. Raises UsageError."""
        return filter_job(self, parse_filter(*filters))


def load_job(folder: str | Path) -> LoadedJob:
    """Read the job in a folder. Raises JobError that says why there is none to be read."""
    store = JobStore.open(Path(folder))
    census = store.census()
    broken = frozenset(entry.task_id for entry in census.entries if entry.broken)
    trials = tuple(_as_counted(entry, broken) for entry in census.entries) if broken else tuple(census.entries)
    tagged = _with_human_tags(trials, store.reviews())
    return LoadedJob(store, tagged, tuple(census.uncounted), finished=len(trials), untagged=trials)


def load_jobs(folders: Sequence[Path], wanted: Filter = EVERY_TRIAL) -> list[LoadedJob]:
    """Read several jobs, of each the trials that fit. Raises JobError also where one is named twice: its trials would
    count twice.
    """
    seen: set[Path] = set()
    for folder in folders:
        if folder.resolve() in seen:
            raise JobError(f"{folder}: is given twice, and its trials would count twice; name each job once")
        seen.add(folder.resolve())
    return [filter_job(load_job(folder), wanted) for folder in folders]


def read_reviews_again(job: LoadedJob) -> LoadedJob:
    """The whole job with what reviewers have said by now; its trials are not read again."""
    return replace(job, trials=_with_human_tags(job.untagged, job.store.reviews()))


def filter_job(job: LoadedJob, wanted: Filter) -> LoadedJob:
    """The job with only the trials that fit a filter, in addition to the one it may have already."""
    if not wanted:
        return job
    both = Filter((*job.filter.conditions, *wanted.conditions))
    trials = tuple(trial for trial in job.trials if wanted.fits(trial, job.labels_of(trial.task_id)))
    tasks = _planned(job, both) if both.is_planned else _by_agent_and_task(trials)
    planned = {agent: sum(tasks[agent].values()) for agent in _agents(job.file) if agent in tasks}
    ordered = {agent: count for agent, count in planned.items() if count}
    return replace(job, trials=trials, filter=both, planned=ordered, planned_tasks=tasks)


def _by_agent_and_task(trials: Iterable[TrialEntry]) -> dict[str, Counter[str]]:
    """How many trials each agent has of each task."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for trial in trials:
        found[trial.agent][trial.task_id] += 1
    return found


def _planned(job: LoadedJob, wanted: Filter) -> dict[str, Counter[str]]:
    """How many of the planned trials of each agent and task fit a filter that can be asked before they run."""
    trials = planned_entries(job.file, job.file.spec.agents)
    return _by_agent_and_task(trial for trial in trials if wanted.fits(trial, job.labels_of(trial.task_id)))


def planned_entries(file: JobFile, agents: Sequence[AgentOptions]) -> Iterator[TrialEntry]:
    """Every trial that a job wants of these agents, as entries that were never tried: what becomes of them is open."""
    without = {(entry.task, entry.agent or "") for entry in file.left_out}
    tasks = [task.id for task in file.tasks]
    for plan in plan_trials(tasks, agents, file.spec.attempts, without=without):
        names = plan.trial_id, plan.task_id, plan.agent.title, plan.attempt
        yield TrialEntry(*names, "cancelled", None, 0, None, None, None)


def _agents(file: JobFile) -> list[str]:
    return [agent.title for agent in file.spec.agents]


def _as_counted(entry: TrialEntry, broken: frozenset[str]) -> TrialEntry:
    outcome = counted_outcome(entry, broken)
    return entry if outcome == entry.outcome else entry._replace(outcome=outcome)


def _with_human_tags(trials: tuple[TrialEntry, ...], reviews: Reviews) -> tuple[TrialEntry, ...]:
    if not reviews:
        return trials
    return tuple(_with_tags(entry, reviews) if entry.trial_id in reviews else entry for entry in trials)


def _with_tags(entry: TrialEntry, reviews: Reviews) -> TrialEntry:
    said = [f"{tag.source.value}:{tag.category}" for tag in human_tags(reviews[entry.trial_id])]
    return entry._replace(tags=tuple(dict.fromkeys((*entry.tags, *said)))) if said else entry
