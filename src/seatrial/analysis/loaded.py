"""A stored job as analyses need it: `load_job` reads its trials once, decides which count, and joins what people said.

Also the filters that choose trials. What the trials amount to is in `figures` and `summary`.
"""

import math
import operator
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from seatrial.analysis.assessed import assessed_record, is_doubted, with_judge_tags
from seatrial.analysis.figures import Figures, Trials, as_counted
from seatrial.analysis.summary import JobSummary, by_agent, planned_trials, summary_of
from seatrial.analysis.tables import Table, html_table, interval, money
from seatrial.errors import JobError, UsageError
from seatrial.jobs.plan import plan_trials
from seatrial.model.arguments import as_path
from seatrial.model.assessment import Assessment
from seatrial.model.evaluation import (
    Annotation,
    ClaimedAgreement,
    ConfidenceMetadata,
    ErrorSource,
    ErrorTag,
    Judgment,
    category_slug,
)
from seatrial.model.job import AgentOptions, JobFile, TaskLabels
from seatrial.model.outcome import Outcome, format_mean
from seatrial.model.record import TrialRecord
from seatrial.model.review import ReviewEntry, first_words, last_words, not_taken_back
from seatrial.store.index import TrialEntry
from seatrial.store.job_store import JobStore
from seatrial.store.journal import with_annotations
from seatrial.store.records import Uncounted

if TYPE_CHECKING:
    import pandas as pd

    from seatrial.analysis.arms import Arm
    from seatrial.analysis.compare import Comparable, ComparisonSet


# Filters, such as `outcome=fail,task=sort-*`. Conditions with a comma between them must all hold, and `|` in a value
# means one or the other; `\,` and `\|` are the characters themselves. Words are compared as patterns, numbers as
# numbers.

NO_LABELS = TaskLabels()

_Words = Callable[[TrialEntry, TaskLabels], Iterable[str | None]]
_Number = Callable[[TrialEntry], float | None]


def _tokens(trial: TrialEntry) -> int | None:
    if trial.input_tokens is None and trial.output_tokens is None:
        return None
    return (trial.input_tokens or 0) + (trial.output_tokens or 0)


_PLANNED_WORDS: Mapping[str, _Words] = {
    "task": lambda trial, _: (trial.task_id,),
    "agent": lambda trial, _: (trial.agent,),
    "trial": lambda trial, _: (trial.trial_id,),
    "task_tag": lambda _, labels: labels.tags,
    "category": lambda _, labels: (labels.category,),
    "difficulty": lambda _, labels: (labels.difficulty,),
    "family": lambda _, labels: (labels.family,),
}
_WORDS: Mapping[str, _Words] = {
    **_PLANNED_WORDS,
    "outcome": lambda trial, _: (trial.outcome,),
    "tag": lambda trial, _: (*trial.tags, *(tag.partition(":")[2] for tag in trial.tags)),
    "step": lambda trial, _: (trial.failed_step,),
    "warning": lambda trial, _: trial.warnings,
    "disputed": lambda trial, _: ("no" if trial.disputed_reward is None else "yes",),
}
_NUMBERS: Mapping[str, _Number] = {
    "attempt": lambda trial: trial.attempt,
    "reward": lambda trial: trial.reward,
    "cost": lambda trial: trial.cost_usd,
    "time": lambda trial: trial.duration_sec,
    "tokens": _tokens,
    "tries": lambda trial: trial.tries,
    "revision": lambda trial: trial.revision,
}
_CLOSED: Mapping[str, tuple[str, ...]] = {"outcome": get_args(Outcome), "disputed": ("yes", "no")}
_PLANNED = frozenset({*_PLANNED_WORDS, "attempt"})
KEYS = (*_WORDS, *_NUMBERS)
"""By what trials can be chosen."""

_ORDERS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_CONDITION = re.compile(r"\s*([A-Za-z_-]*)\s*(!=|<=|>=|=|<|>)(.*)", re.DOTALL)
_PIECE = re.compile(r"(?:\\[,|\\]|[^,])+")
_CHOICE = re.compile(r"(?:\\[,|\\]|[^|])+")
_ESCAPED = re.compile(r"\\([,|\\])")


@dataclass(frozen=True, slots=True)
class TrialCondition:
    """What one key of a trial has to be like: one of `values`, or with `!=` none of them."""

    key: str
    relation: str
    values: tuple[str, ...]
    text: str

    @property
    def is_planned(self) -> bool:
        """Whether it can be told of a trial that has not run yet."""
        return self.key in _PLANNED

    def fits(self, trial: TrialEntry, labels: TaskLabels = NO_LABELS) -> bool:
        """Whether a trial is like that. What is not known is like nothing, and neither less nor more than a number."""
        if self.relation in _ORDERS:
            number = _NUMBERS[self.key](trial)
            return number is not None and _ORDERS[self.relation](number, float(self.values[0]))
        return self._is_like(trial, labels) == (self.relation == "=")

    def _is_like(self, trial: TrialEntry, labels: TaskLabels) -> bool:
        if self.key in _WORDS:
            found = [word for word in _WORDS[self.key](trial, labels) if word is not None]
            values = [*self.values, *map(_like_a_tag, self.values)] if self.key == "tag" else self.values
            return any(value == word or fnmatchcase(word, value) for value in values for word in found)
        number = _NUMBERS[self.key](trial)
        return number is not None and any(_is_number_like(number, value) for value in self.values)


@dataclass(frozen=True, slots=True)
class Filter:
    """Conditions that must all hold. Without any, every trial fits."""

    conditions: tuple[TrialCondition, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.conditions)

    def __str__(self) -> str:
        return ",".join(condition.text for condition in self.conditions)

    @property
    def is_planned(self) -> bool:
        """Whether it can be told of trials that have not run yet: it asks which they are, and for labels of tasks."""
        return all(condition.is_planned for condition in self.conditions)

    def fits(self, trial: TrialEntry, labels: TaskLabels = NO_LABELS) -> bool:
        """Whether a trial of a task with these labels is wanted."""
        return all(condition.fits(trial, labels) for condition in self.conditions)


EVERY_TRIAL = Filter()


def parse_filter(*texts: str) -> Filter:
    """Read filters such as `outcome=fail,task=x*`, all of which must hold. Raises UsageError for anything else."""
    return Filter(tuple(_parse_condition(piece) for text in texts for piece in _pieces(text)))


def _pieces(text: str) -> list[str]:
    pieces = _PIECE.findall(text)
    commas = len(_PIECE.sub("", text))
    if len(pieces) != commas + 1 or not all(map(str.strip, pieces)):
        raise UsageError(f"{text!r}: a condition is empty; write KEY=PATTERN, with a comma between two of them")
    return pieces


def _parse_condition(text: str) -> TrialCondition:
    found = _CONDITION.fullmatch(text)
    if not found:
        raise UsageError(
            f"{text.strip()!r} is no condition; write KEY=PATTERN, and KEY=ONE|OTHER for one or the other; "
            rf"a comma in a name is written \,; keys are {', '.join(KEYS)}"
        )
    key, relation, rest = found.groups()
    if key not in KEYS:
        raise UsageError(f"{text.strip()!r}: there is no key {key!r}{_near(key, KEYS)}; keys are {', '.join(KEYS)}")
    values = tuple(_ESCAPED.sub(r"\1", value.strip()) for value in _CHOICE.findall(rest))
    if not values or not all(values):
        raise UsageError(f"{text.strip()!r}: there is nothing after {relation!r}; write {key}{relation}VALUE")
    for value in values:
        _check(text.strip(), key, relation, value)
    if relation in _ORDERS and len(values) > 1:
        raise UsageError(f"{text.strip()!r}: {relation!r} takes one number, found {len(values)}")
    return TrialCondition(key, relation, values, text.strip())


def _check(text: str, key: str, relation: str, value: str) -> None:
    if key in _NUMBERS:
        is_pattern = relation not in _ORDERS and any(sign in value for sign in "*?[")
        if not is_pattern and _number(value) is None:
            raise UsageError(f"{text!r}: {key} is a number, found {value!r}")
    elif relation in _ORDERS:
        more = ", ".join(_NUMBERS)
        raise UsageError(f"{text!r}: {key} is a word, so write {key}=PATTERN; {relation!r} is for {more}")
    elif key in _CLOSED and not any(fnmatchcase(word, value) for word in _CLOSED[key]):
        known = _CLOSED[key]
        raise UsageError(f"{text!r}: no {key} is like {value!r}{_near(value, known)}; there are {', '.join(known)}")


def _near(word: str, known: Iterable[str]) -> str:
    near = get_close_matches(word.lower(), [*known], n=1)
    return f"; did you mean {near[0]!r}" if near else ""


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _like_a_tag(value: str) -> str:
    """A pattern of a category as somebody may have written it, in the way in which categories are counted."""
    return "_".join(value.lower().split())


def _is_number_like(number: float, value: str) -> bool:
    wanted = _number(value)
    return fnmatchcase(f"{number:.15g}", value) if wanted is None else number == wanted


# Reviews are joined to a record when it is read, and never stored with it: the journal goes on.

Reviews = Mapping[str, Sequence[ReviewEntry]]
"""The journal of a job: every entry by the id of its trial."""

LABELS = (Judgment.PASS.value, Judgment.FAIL.value)
"""What reviewers decide between. One who defers has said nothing yet."""

_OF_ANNOTATORS = set(ClaimedAgreement.model_fields)


def first_ratings(reviews: Reviews) -> dict[str, dict[str, str]]:
    """What reviewers decided before they knew of each other, by trial and reviewer; deferrals are missing."""
    found = {trial: _decided(first_words(entries)) for trial, entries in reviews.items()}
    return {trial: said for trial, said in found.items() if said}


def standing(entries: Sequence[ReviewEntry]) -> list[ReviewEntry]:
    """The verdicts that count now: each reviewer's last one, without those that an adjudication overruled."""
    last = [*last_words(entries).values()]
    settled = [each for each in not_taken_back(entries) if each.role == "adjudication" and _judgment(each) in LABELS]
    if not settled:
        return last
    verdict = _judgment(settled[-1])
    return [*(each for each in last if _judgment(each) == verdict), settled[-1]]


def human_tags(entries: Sequence[ReviewEntry]) -> list[ErrorTag]:
    """What went wrong in the words of those whose verdicts count, each category once, with who said so."""
    said: dict[str, list[str]] = {}
    for entry in standing(entries):
        for category in entry.annotation.categories if entry.annotation else ():
            if slug := category_slug(category):
                said.setdefault(slug, []).append(entry.reviewer_id)
    return [
        ErrorTag(category=category, description=f"said by {', '.join(dict.fromkeys(who))}", source=ErrorSource.HUMAN)
        for category, who in said.items()
    ]


def review_confidence(
    entries: Sequence[ReviewEntry], known: ConfidenceMetadata | None = None
) -> ConfidenceMetadata | None:
    """How sure one may be of a trial, by its own reviews: how many decided it, and how many pairs of them agreed first.

    What its verifier said stays: its repeats and its interval where they are, what it said of annotators as `claimed`.
    """
    count = len(_decided(last_words(entries)))
    if not count:
        return known
    values = known.model_dump(exclude=_OF_ANNOTATORS, exclude_none=True) if known else {}
    claimed = known.model_dump(include=_OF_ANNOTATORS, exclude_none=True) if known else {}
    if claimed:
        values["claimed"] = claimed
    values["annotator_count"] = count
    if pairs := [*combinations(_decided(first_words(entries)).values(), 2)]:
        same = sum(one == other for one, other in pairs)
        values |= {"inter_rater_agreement": same / len(pairs), "agreement_metric": "percent"}
    return ConfidenceMetadata.model_validate(values)


def reviewed_record(record: TrialRecord, entries: Sequence[ReviewEntry]) -> TrialRecord:
    """A record with what its reviews say in its evaluation; one that was never judged has no place for it."""
    said = [each.annotation for each in not_taken_back(entries) if each.annotation]
    joined = with_annotations(record, said)
    if joined.evaluation is None or not said:
        return joined
    known = joined.evaluation.error_taxonomy or []
    seen = {(category_slug(tag.category), tag.source) for tag in known}
    tags = [*known, *(tag for tag in human_tags(entries) if (tag.category, tag.source) not in seen)]
    confidence = review_confidence(entries, joined.evaluation.confidence)
    changed = {"error_taxonomy": tags or joined.evaluation.error_taxonomy, "confidence": confidence}
    return joined.model_copy(update={"evaluation": joined.evaluation.model_copy(update=changed)})


def _decided(words: Mapping[str, ReviewEntry]) -> dict[str, str]:
    return {who: said for who, entry in words.items() if (said := _judgment(entry)) in LABELS}


def _judgment(entry: ReviewEntry) -> str:
    assert entry.annotation is not None  # noqa: S101 - callers choose among verdicts
    return entry.annotation.judgment.value


@dataclass(frozen=True, repr=False)
class LoadedJob:
    """A job and its finished trials, as they were when it was read.

    A trial of a task whose verifier is broken has the outcome `verifier_error`, whatever that verifier said of it.
    What reviewers and judges say went wrong is among the tags of trials.
    """

    store: JobStore
    trials: tuple[TrialEntry, ...]
    """Those that fit the filter."""
    uncounted: tuple[Uncounted, ...]
    filter: Filter = EVERY_TRIAL
    finished: int = 0
    """How many the job has, whatever the filter."""
    planned: Mapping[str, int] | None = None
    """With a filter, how many planned trials of each agent fit. By what became of a trial only finished ones can be
    asked: then as many are planned as fit, and none is open.
    """
    planned_tasks: Mapping[str, Mapping[str, int]] | None = None
    """The same, of each agent and task."""
    untagged: tuple[TrialEntry, ...] = ()
    """All trials without the tags of reviewers and judges."""

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
    def by_agent(self) -> dict[str, Trials]:
        """The trials of each agent, in the order of the job's spec."""
        return by_agent(self.trials, planned_trials(self.file) if self.planned is None else self.planned)

    @cached_property
    def summary(self) -> JobSummary:
        """Counts and means for each agent and for all."""
        return summary_of(self.by_agent, self.file.left_out)

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
    def assessments(self) -> dict[str, list[Assessment]]:
        """What judges answered about its trials, by their ids."""
        return self.store.assessments()

    @cached_property
    def doubted_by_judges(self) -> frozenset[str]:
        """The trials about which judges are divided, or find otherwise than the verifier."""
        trials = {trial.trial_id: trial for trial in self.trials} if self.assessments else {}
        found = ((trials[each], said) for each, said in self.assessments.items() if each in trials)
        return frozenset(trial.trial_id for trial, said in found if is_doubted(trial, said, self.threshold_of(trial)))

    def record(self, trial_id: str) -> TrialRecord:
        """Everything about one trial, with what reviewers and judges say of it: tags, and how far they agree.

        Raises JobError when there is no such trial.
        """
        record = self.store.revisions(trial_id)[-1].record
        reviewed = reviewed_record(record, self.reviews.get(trial_id, ()))
        return assessed_record(reviewed, self.assessments.get(trial_id, ()))

    def to_pandas(self) -> "pd.DataFrame":
        """A DataFrame with a row for each trial; docs/python.md names its columns. Raises UsageError without pandas."""
        from seatrial.analysis.arms import trial_frame  # noqa: PLC0415 - made of loaded jobs

        return trial_frame(self)

    def compare(self, other: "Comparable | None" = None, **options: Any) -> "ComparisonSet":
        """Compare another job with this one, or without another its own agents. Options are those of `compare`."""
        from seatrial.analysis.compare import compare  # noqa: PLC0415 - it compares loaded jobs

        return compare(self, other, **options)

    def __repr__(self) -> str:
        planned = sum(trials.planned for trials in self.by_agent.values())
        trials = f"{len(self.trials):,} of {planned:,} trials"
        return f"<LoadedJob {self.name!r}: {len(self.by_agent):,} agents, {trials}>"

    def _repr_html_(self) -> str:
        notes = [self.shown] if self.shown else []
        title = f"{self.name}: tasks {len(self.file.tasks):,}, attempts {self.file.spec.attempts:,}"
        return html_table(title, agents_table(self.summary.agents), notes)

    def where(self, *filters: str) -> "LoadedJob":
        """The job with only the trials that fit, such as `where("outcome=fail,task=sort-*")`. Raises UsageError."""
        return filter_job(self, parse_filter(*filters))


def agents_table(agents: Mapping[str, Figures]) -> Table:
    """What agents amount to, for a notebook."""
    rows = [
        (
            name,
            format_mean(figures.mean),
            interval(figures.estimate),
            format_mean(figures.pass_rate),
            f"{figures.estimate.groups if figures.estimate else 0:,}",
            f"{figures.scored:,}",
            f"{figures.planned:,}",
            f"{figures.finished - figures.scored:,}",
            money(figures.usage.cost_usd if figures.usage else None),
        )
        for name, figures in agents.items()
    ]
    columns = ("agent", "mean reward", "interval", "pass rate", "tasks", "scored", "planned", "not scored", "cost")
    return Table(columns, rows)


def load_job(folder: str | Path) -> LoadedJob:
    """Read the job in a folder. Raises JobError that says why there is none to be read."""
    store = JobStore.open(as_path("the folder of the job", folder))
    census = store.census()
    trials = tuple(as_counted(census.entries))
    tagged = _with_tags_beside(trials, store)
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
    """The whole job with what reviewers and judges have said by now; its trials are not read again."""
    return replace(job, trials=_with_tags_beside(job.untagged, job.store))


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


def _with_tags_beside(trials: tuple[TrialEntry, ...], store: JobStore) -> tuple[TrialEntry, ...]:
    """Trials with the tags that the journals beside their records have."""
    tagged = _with_human_tags(trials, store.reviews())
    assessments = store.assessments()
    return with_judge_tags(tagged, assessments) if assessments else tagged


def _with_human_tags(trials: tuple[TrialEntry, ...], reviews: Reviews) -> tuple[TrialEntry, ...]:
    if not reviews:
        return trials
    return tuple(_with_tags(entry, reviews) if entry.trial_id in reviews else entry for entry in trials)


def _with_tags(entry: TrialEntry, reviews: Reviews) -> TrialEntry:
    said = [f"{tag.source.value}:{tag.category}" for tag in human_tags(reviews[entry.trial_id])]
    return entry._replace(tags=tuple(dict.fromkeys((*entry.tags, *said)))) if said else entry
