"""What agents did, turn by turn, as figures: which share of turns is what, what follows what, where trials go wrong.

A trial is compared with the other passed trials of its task, never with itself. Behaviours by rules and by judges are
counted apart, for they are different instruments. Failures that name an action become a worklist.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from seatrial.analysis.arms import Arm
from seatrial.analysis.failures import Taxonomy
from seatrial.jobs.turns import BEHAVIOUR, FIRST_FAILURE, MECHANICAL, classified, read_turns
from seatrial.judge.rubric import known_actions
from seatrial.model.assessment import AssessedQuestion, Assessment, current
from seatrial.model.evaluation import category_slug
from seatrial.stats.estimates import Estimate, estimate_mean
from seatrial.stats.sequences import Likeness, Row, likeness, transitions
from seatrial.store.index import TrialEntry, entry_of
from seatrial.store.job_store import JobStore, StoredRevision
from seatrial.trajectories.behaviour import BEHAVIOURS, LOW
from seatrial.trajectories.threads import MAIN

_MOST_BYTES = 2**24
_MOST_OTHERS, _MOST_COMPARED = 10, 200


@dataclass(frozen=True)
class ClassifiedTrial:
    """The turns of a trial as one source classified them."""

    trial: TrialEntry
    assessment: Assessment

    @property
    def source(self) -> str:
        """`mechanical`, or the judges."""
        return ", ".join(judge.model for judge in self.assessment.judges)

    @property
    def turns(self) -> list[AssessedQuestion]:
        return [each for each in self.assessment.questions if each.kind == "choice"]

    @property
    def counts(self) -> Counter[str]:
        """How many turns are what; those that are unscored are in no count."""
        return Counter(each.answer for each in self.turns if isinstance(each.answer, str))

    @property
    def low(self) -> int:
        """How many turns are classified with little confidence."""
        return sum(each.confidence is not None and each.confidence < LOW for each in self.turns)

    @property
    def unscored(self) -> int:
        return sum(each.is_unscored for each in self.turns)

    @property
    def first_failure(self) -> AssessedQuestion | None:
        """The first failing step, which only rules look for."""
        return next((each for each in self.assessment.questions if each.id == FIRST_FAILURE), None)

    @property
    def threads(self) -> list[list[str]]:
        """The behaviours of each thread in order; a turn that is unscored ends a stretch."""
        found: dict[tuple[str | None, str, int], list[str]] = defaultdict(list)
        gaps: Counter[tuple[str | None, str]] = Counter()
        for each in self.turns:
            place = (each.turn.step, each.turn.thread) if each.turn else (None, MAIN)
            if isinstance(each.answer, str):
                found[*place, gaps[place]].append(each.answer)
            else:
                gaps[place] += 1
        return list(found.values())

    @property
    def sequence(self) -> list[str]:
        """The behaviours of the main threads, one after the other."""
        main = (each for each in self.turns if each.turn is None or each.turn.thread == MAIN)
        return [each.answer for each in main if isinstance(each.answer, str)]


def classified_trials(trials: Iterable[TrialEntry], known: Mapping[str, Sequence[Assessment]]) -> list[ClassifiedTrial]:
    """Trials with how their turns are classified, those of rules first, each source once.

    The conversation of a trial is that of all its revisions, so the latest of any of them counts.
    """
    return [
        ClassifiedTrial(trial, each)
        for trial in trials
        for each in sorted(current(known.get(trial.trial_id, ())), key=lambda each: each.judges[0].model != MECHANICAL)
        if each.rubric == BEHAVIOUR
    ]


def behaviour_of(store: JobStore, revisions: Sequence[StoredRevision]) -> list[ClassifiedTrial]:
    """How the turns of one trial are classified: by rules in any case, and by judges that were asked.

    Calls of more than 16 MB are read only by `seatrial classify`.
    """
    record = revisions[-1].record
    known = store.behaviour_of(record.trial_id)
    found = read_turns(revisions[0].folder, record, _MOST_BYTES)
    if found.turns:
        known = [*known, classified(record, found)]
    return classified_trials([entry_of(record, record.agent.name)], {record.trial_id: known})


@dataclass(frozen=True, slots=True)
class BehaviourFigures:
    """What an agent did in all its trials, by one source.

    A share is the mean over tasks of the shares of the turns of their trials.
    """

    arm: str
    source: str
    trials: int
    turns: int
    low: int
    unscored: int
    shares: Mapping[str, Estimate]
    matrix: tuple[Row, ...]
    """Rows and columns are in the order of BEHAVIOURS."""

    failing: int
    """How many trials have a first failing step."""

    failing_at: Estimate | None
    """Where in the thread that is, from 0 to 1; over the trials that have one."""


def behaviour_figures(
    arm: str, trials: Sequence[ClassifiedTrial], *, level: float = 0.95, clusters: Mapping[str, str] | None = None
) -> list[BehaviourFigures]:
    """What one agent did, for each source that classified any of its trials."""
    sources = dict.fromkeys(each.source for each in trials)
    return [
        _figures(arm, source, [each for each in trials if each.source == source], level, clusters) for source in sources
    ]


def _figures(
    arm: str, source: str, trials: Sequence[ClassifiedTrial], level: float, clusters: Mapping[str, str] | None
) -> BehaviourFigures:
    shares = {
        name: _mean(
            [(each, each.counts[name] / total) for each in trials if (total := each.counts.total())], level, clusters
        )
        for name in BEHAVIOURS
    }
    failing = [
        (each, step.answer) for each in trials if (step := each.first_failure) and isinstance(step.answer, float)
    ]
    return BehaviourFigures(
        arm=arm,
        source=source,
        trials=len(trials),
        turns=sum(len(each.turns) for each in trials),
        low=sum(each.low for each in trials),
        unscored=sum(each.unscored for each in trials),
        shares={name: share for name, share in shares.items() if share is not None},
        matrix=transitions([thread for each in trials for thread in each.threads], BEHAVIOURS),
        failing=len(failing),
        failing_at=_mean(failing, level, clusters),
    )


def _mean(
    values: Sequence[tuple[ClassifiedTrial, float]], level: float, clusters: Mapping[str, str] | None
) -> Estimate | None:
    by_task: dict[str, list[float]] = defaultdict(list)
    for each, value in values:
        by_task[each.trial.task_id].append(value)
    names = [clusters.get(task, f"task {task}") for task in by_task] if clusters is not None else None
    return estimate_mean(list(by_task.values()), names, level)


def likeness_to_passed(trials: Sequence[ClassifiedTrial], seed: int = 0) -> dict[str, Likeness]:
    """How alike each trial and the *other* passed trials of its task are, by the ids of trials; all of one source.

    The first turns of a few of them are enough, and the time it takes grows with the square of both.
    """
    passed: dict[str, list[ClassifiedTrial]] = defaultdict(list)
    for each in trials:
        if each.trial.outcome == "pass" and each.sequence:
            passed[each.trial.task_id].append(each)
    found = {}
    for each in trials:
        others = [other for other in passed[each.trial.task_id][: _MOST_OTHERS + 1] if other is not each]
        sequences = [other.sequence[:_MOST_COMPARED] for other in others[:_MOST_OTHERS]]
        alike = likeness(each.sequence[:_MOST_COMPARED], sequences, BEHAVIOURS, seed)
        if alike is not None:
            found[each.trial.trial_id] = alike
    return found


def arm_behaviour(
    arms: Sequence[Arm], *, level: float = 0.95, clusters: Mapping[str, str] | None = None
) -> tuple[BehaviourFigures, ...]:
    """What the agents of jobs did, as far as `seatrial classify` has classified it."""
    known = {id(arm.job): arm.job.store.behaviour() for arm in arms}
    return tuple(
        figures
        for arm in arms
        for figures in behaviour_figures(
            arm.label, classified_trials(arm.trials, known[id(arm.job)]), level=level, clusters=clusters
        )
    )


# What to do about failures.


@dataclass(frozen=True, slots=True)
class WorkItem:
    """A finding that names an action: who found it, in how many trials, and one of them."""

    action: str
    category: str
    source: str
    arms: tuple[str, ...]
    trials: int
    example: str


def worklist(arms: Sequence[Arm], taxonomy: Taxonomy) -> tuple[WorkItem, ...]:
    """What to do about the failures of a report, what concerns most trials first.

    Actions are those of the rubrics that judges used, else of the vocabularies that come with Seatrial.
    """
    jobs = {id(arm.job): arm.job for arm in arms}
    actions = {
        category_slug(label): action
        for job in jobs.values()
        for each in job.assessments.values()
        for assessment in each
        for label, action in assessment.actions.items()
    }
    categories = dict.fromkeys(count.category for count in taxonomy.failures)
    if categories:
        actions = {**known_actions(), **actions}
    items = []
    for category in categories:
        if action := actions.get(category):
            counts = [count for count in taxonomy.failures if count.category == category]
            sources = dict.fromkeys(source for count in counts for source in count.source.split(", "))
            trials = sum(count.trials for count in counts)
            names = tuple(count.arm for count in counts)
            items.append(WorkItem(action, category, ", ".join(sources), names, trials, counts[0].examples[0]))
    return tuple(sorted(items, key=lambda item: (-item.trials, item.action, item.category)))
