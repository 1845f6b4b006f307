"""Arms: what is compared, ranked and drawn. Each is one agent of one job, with its trials.

Also their trials as rows, for tables that other programs read and for pandas.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from seatrial.analysis.figures import SCORED, Figures, Trials
from seatrial.analysis.loaded import LoadedJob, agents_table, human_tags, planned_entries
from seatrial.analysis.tables import html_table
from seatrial.errors import UsageError
from seatrial.model.evaluation import Judgment
from seatrial.model.job import LockedTask, TaskLabels
from seatrial.model.outcome import format_mean
from seatrial.model.review import ReviewEntry, last_words
from seatrial.stats.estimates import Attempts
from seatrial.store.index import TrialEntry

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class Arm:
    """One agent of one job. `label` is what it is called among the arms it is shown with."""

    label: str
    job: LoadedJob
    agent: str

    @property
    def selected(self) -> Trials:
        """Its trials, to be counted together."""
        return self.job.by_agent[self.agent]

    @property
    def trials(self) -> Sequence[TrialEntry]:
        return self.selected.entries

    @property
    def planned(self) -> int:
        """How many trials it is to have."""
        return self.selected.planned

    @property
    def scored(self) -> Sequence[TrialEntry]:
        """The trials that were judged."""
        return self.selected.scored

    @property
    def rewards(self) -> Mapping[str, Sequence[float]]:
        """The rewards of its scored trials, task by task."""
        return self.selected.rewards

    @property
    def attempts(self) -> Mapping[str, Attempts]:
        """How often each task was judged, and how often it passed."""
        return self.selected.attempts

    @property
    def figures(self) -> Figures:
        """What its trials amount to."""
        return self.job.summary.agents[self.agent]

    def __repr__(self) -> str:
        mean = "no mean" if self.figures.mean is None else f"mean {format_mean(self.figures.mean)}"
        return f"<Arm {self.label!r} of {self.job.name!r}: {len(self.trials):,} of {self.planned:,} trials, {mean}>"

    def _repr_html_(self) -> str:
        return html_table(self.job.name, agents_table({self.label: self.figures}))

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
    pairs = [(job, agent) for job in jobs for agent in job.by_agent]
    return [Arm(label, job, agent) for label, (job, agent) in zip(_labels(pairs), pairs, strict=True)]


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


# Planned trials without a record: reports for build servers list them as skipped.


def open_trials(arm: Arm) -> list[TrialEntry]:
    """What has not been run, as entries that were never tried; none where a filter asks what became of trials."""
    job = arm.job
    if not job.filter.is_planned:
        return []
    finished = {trial.trial_id for trial in arm.trials}
    planned = planned_entries(job.file, [agent for agent in job.file.spec.agents if agent.title == arm.agent])
    waiting = (trial for trial in planned if trial.trial_id not in finished)
    return [trial for trial in waiting if job.filter.fits(trial, job.labels_of(trial.task_id))]


# Columns for other programs: one row per trial, the same names and kinds in every format. A name is never given another
# meaning; what is new comes as a new column at the end.

ColumnKind = Literal["text", "integer", "number", "boolean", "time", "texts", "numbers", "shares"]
"""`texts` and `numbers` are lists, `shares` maps names to numbers, a `time` is ISO 8601."""

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Source:
    """What the cells of a row are taken from."""

    arm: Arm
    trial: TrialEntry
    labels: TaskLabels
    task: LockedTask | None
    models: Mapping[str, str | None]
    reviews: Sequence[ReviewEntry] = ()

    @property
    def is_scored(self) -> bool:
        return self.trial.outcome in SCORED and self.trial.reward is not None

    @property
    def categories(self) -> tuple[str, ...]:
        return tuple(tag.category for tag in human_tags(self.reviews))

    def judged(self, judgment: Judgment) -> int:
        last = (each.annotation for each in last_words(self.reviews).values())
        return sum(said is not None and said.judgment == judgment for said in last)


@dataclass(frozen=True, slots=True)
class TrialColumn:
    """A column: its name, what kind of values it has, and what they mean. A value that is not known is None."""

    name: str
    kind: ColumnKind
    meaning: str
    value: Callable[[_Source], Any]


def _if_scored(source: _Source, value: Any) -> Any:
    return value if source.is_scored else None


COLUMNS = (
    TrialColumn("arm", "text", "the agent, with its job where two have one of that name", lambda it: it.arm.label),
    TrialColumn("job", "text", "the name of the job", lambda it: it.arm.job.name),
    TrialColumn("job_id", "text", "the id of the job, which no other has", lambda it: it.arm.job.file.id),
    TrialColumn("trial_id", "text", "the trial, which is also the name of its folder", lambda it: it.trial.trial_id),
    TrialColumn("task", "text", "the id of the task", lambda it: it.trial.task_id),
    TrialColumn(
        "task_digest", "text", "which content of the task it was", lambda it: it.task.digest if it.task else None
    ),
    TrialColumn("agent", "text", "how the job calls the agent", lambda it: it.trial.agent),
    TrialColumn("model", "text", "the model that the job gave the agent", lambda it: it.models.get(it.trial.agent)),
    TrialColumn("attempt", "integer", "which attempt at the task, from 1", lambda it: it.trial.attempt),
    TrialColumn("outcome", "text", "the word that the trial amounts to", lambda it: it.trial.outcome),
    TrialColumn("scored", "boolean", "whether it was judged, and is in means", lambda it: it.is_scored),
    TrialColumn(
        "reward", "number", "the reward; none where it was not judged", lambda it: _if_scored(it, it.trial.reward)
    ),
    TrialColumn(
        "passed",
        "boolean",
        "whether it passed; none where it was not judged",
        lambda it: _if_scored(it, it.trial.outcome == "pass"),
    ),
    TrialColumn(
        "pass_threshold",
        "number",
        "the reward from which on a trial has passed",
        lambda it: it.arm.job.threshold_of(it.trial),
    ),
    TrialColumn(
        "disputed_reward", "number", "the higher reward of a disputed verdict", lambda it: it.trial.disputed_reward
    ),
    TrialColumn("tries", "integer", "how often it was started until it ended so", lambda it: it.trial.tries),
    TrialColumn("revision", "integer", "how often it was judged again", lambda it: it.trial.revision),
    TrialColumn("first_outcome", "text", "what it amounted to before that", lambda it: it.trial.first_outcome),
    TrialColumn("first_reward", "number", "its reward before that", lambda it: it.trial.first_reward),
    TrialColumn("started_at", "time", "when it was started", lambda it: it.trial.started_at),
    TrialColumn("duration_sec", "number", "how long it took", lambda it: it.trial.duration_sec),
    TrialColumn("agent_sec", "number", "how long the agent worked", lambda it: it.trial.agent_sec),
    TrialColumn("model_calls", "integer", "how often it called its model", lambda it: it.trial.model_calls),
    TrialColumn("input_tokens", "integer", "what its model was told", lambda it: it.trial.input_tokens),
    TrialColumn("output_tokens", "integer", "what its model said", lambda it: it.trial.output_tokens),
    TrialColumn("cost_usd", "number", "what that cost; none where it is not known", lambda it: it.trial.cost_usd),
    TrialColumn("prices", "text", "by which tables of prices that was computed", lambda it: it.trial.prices),
    TrialColumn("failure", "text", "why it could not be run", lambda it: it.trial.failure),
    TrialColumn("failed_step", "text", "the first step that did not pass", lambda it: it.trial.failed_step),
    TrialColumn("tags", "texts", "classified failures, each `source:category`", lambda it: it.trial.tags),
    TrialColumn("warnings", "texts", "what makes its verdict doubtful", lambda it: it.trial.warnings),
    TrialColumn(
        "dimensions", "shares", "the share of each part of the breakdown, 0 to 1", lambda it: it.trial.dimensions
    ),
    TrialColumn(
        "repeats", "numbers", "all rewards of a verifier that was asked repeatedly", lambda it: it.trial.repeats
    ),
    TrialColumn(
        "files_put_back", "integer", "files that the verifier did not meet as left", lambda it: it.trial.put_back
    ),
    TrialColumn("oom_kills", "integer", "processes that were killed for want of memory", lambda it: it.trial.oom_kills),
    TrialColumn("task_category", "text", "the category that the task gives itself", lambda it: it.labels.category),
    TrialColumn("task_difficulty", "text", "its difficulty", lambda it: it.labels.difficulty),
    TrialColumn(
        "task_family", "text", "its family: tasks of one are variants of each other", lambda it: it.labels.family
    ),
    TrialColumn("task_tags", "texts", "its tags", lambda it: it.labels.tags),
    TrialColumn("tests", "text", "a short digest of the tests that judged it", lambda it: it.trial.tests),
    TrialColumn("setting", "text", "a short digest of its system, limits and network", lambda it: it.trial.setting),
    TrialColumn(
        "annotated_pass", "integer", "reviewers whose last word is `pass`", lambda it: it.judged(Judgment.PASS)
    ),
    TrialColumn(
        "annotated_fail", "integer", "reviewers whose last word is `fail`", lambda it: it.judged(Judgment.FAIL)
    ),
    TrialColumn("annotated_categories", "texts", "what reviewers said went wrong", lambda it: it.categories),
)


def trial_rows(arms: Iterable[Arm]) -> Iterator[Row]:
    """A row for each trial, with a value for each of COLUMNS: arm by arm, in each by task and attempt."""
    values = [column.value for column in COLUMNS]
    for arm in arms:
        tasks = {task.id: task for task in arm.job.file.tasks}
        models = {agent.title: agent.model for agent in arm.job.file.spec.agents}
        reviews = arm.job.reviews
        for trial in in_order(arm.trials):
            labels = arm.job.labels_of(trial.task_id)
            source = _Source(arm, trial, labels, tasks.get(trial.task_id), models, reviews.get(trial.trial_id, ()))
            yield tuple(value(source) for value in values)


def in_order(trials: Iterable[TrialEntry]) -> list[TrialEntry]:
    """Trials of one arm by task and attempt, whatever order they were found in."""
    return sorted(trials, key=lambda trial: (trial.task_id, trial.attempt, trial.trial_id))


# pandas, for those who have it.

_KINDS: dict[ColumnKind, str] = {
    "text": "string",
    "integer": "Int64",
    "number": "float64",
    "boolean": "boolean",
    "time": "datetime64[ns, UTC]",
    "texts": "object",
    "numbers": "object",
    "shares": "object",
}


def trial_frame(job: LoadedJob) -> "pd.DataFrame":
    """The trials of a job. Lists and shares stay Python objects. Raises UsageError where there is no pandas."""
    try:
        import pandas as pd  # noqa: PLC0415 - an extra, and slow to import
    except ImportError as error:
        raise UsageError("pandas is not installed, and a DataFrame needs it: pip install 'seatrial[pandas]'") from error
    rows = [*trial_rows(arms_of([job]))]
    frame = pd.DataFrame(index=range(len(rows)))
    for place, column in enumerate(COLUMNS):
        values = [row[place] for row in rows]
        frame[column.name] = pd.Series(
            pd.to_datetime(values, utc=True, format="ISO8601") if column.kind == "time" else values,
            dtype=_KINDS[column.kind],
        )
    return frame
