"""The columns of tables that other programs read: one row per trial, the same names and kinds in every format.

A name is never given another meaning; what is new comes as a new column at the end.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from seatrial.analysis.arms import Arm
from seatrial.analysis.reviewed import human_tags
from seatrial.analysis.tally import SCORED
from seatrial.model.annotation import Judgment
from seatrial.model.job import LockedTask, TaskLabels
from seatrial.model.review import ReviewEntry, last_words
from seatrial.store.index import TrialEntry

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
