"""What the reviews of jobs amount to: how far people agree, with each other, with what is known, with the verifier.

People are compared by what they said first, on their own. What they say after they knew of others settles trials, and
says nothing of how alike they judge.
"""

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from seatrial.analysis.loaded import LABELS, LoadedJob, Reviews, first_ratings, human_tags
from seatrial.model.evaluation import Judgment
from seatrial.model.outcome import format_reward
from seatrial.model.review import ReviewEntry
from seatrial.review.cases import ReviewCase, VerifierFigures, cases_of, verifier_figures
from seatrial.review.verdicts import ReviewState, is_decided, judgment_of, known_verdict
from seatrial.stats.agreement import PairAgreement, RaterAgreement, items_of, pair_agreements, percent, rater_agreement
from seatrial.stats.corrected import Confusion

# Each reviewer


@dataclass(frozen=True, slots=True)
class ReviewerFigures:
    """One reviewer by their first verdicts. `seconds` is the median time of one, None where nobody took it.

    `calibrated` counts trials of which somebody else has said what is right, and `right` how many of those they judged
    so; to defer is neither.
    """

    reviewer_id: str
    discipline: str | None
    passed: int
    failed: int
    deferred: int
    seconds: float | None
    calibrated: int
    right: int

    @property
    def verdicts(self) -> int:
        return self.passed + self.failed + self.deferred

    @property
    def calibration(self) -> float | None:
        """The share that they judged right, None where nothing is known to be right."""
        return self.right / self.calibrated if self.calibrated else None


def reviewer_figures(cases: Sequence[ReviewCase]) -> list[ReviewerFigures]:
    """Everybody who gave a verdict of their own, by name."""
    names = sorted({name for case in cases for name in case.review.first})
    return [_figures(name, [case for case in cases if name in case.review.first]) for name in names]


def _figures(name: str, cases: Sequence[ReviewCase]) -> ReviewerFigures:
    said = [case.review.first[name] for case in cases]
    counts = Counter(judgment_of(entry) for entry in said)
    times = [entry.seconds for entry in said if entry.seconds is not None]
    known = [(entry, right) for case, entry in zip(cases, said, strict=True) if (right := _known(case, entry))]
    return ReviewerFigures(
        reviewer_id=name,
        discipline=_discipline(said),
        passed=counts[Judgment.PASS],
        failed=counts[Judgment.FAIL],
        deferred=counts[Judgment.DEFER],
        seconds=statistics.median(times) if times else None,
        calibrated=len(known),
        right=sum(judgment_of(entry) is right for entry, right in known),
    )


def _known(case: ReviewCase, said: ReviewEntry) -> Judgment | None:
    """What is right by somebody else, of a trial that a reviewer has decided."""
    if case.review.gold is None or not is_decided(said):
        return None
    return known_verdict(case.entries, said.reviewer_id)


def _discipline(said: Iterable[ReviewEntry]) -> str | None:
    named = [entry.annotation.reviewer_discipline for entry in said if entry.annotation]
    return next((name for name in reversed(named) if name), None)


@dataclass(frozen=True)
class ReviewFigures:
    """What the reviews of some trials amount to; `name` says which trials these are.

    `trials` have finished and `reviewed` of them have a verdict of somebody. `deferred` is the share of first verdicts
    that leave it to others. `blind` and `sighted` are the agreement by those first verdicts that were given without and
    with knowledge of reward and model, where there are both kinds. `categories` counts trials.
    """

    name: str
    trials: int
    reviewed: int
    states: Mapping[ReviewState, int]
    deferred: float | None
    agreement: RaterAgreement
    blind: RaterAgreement | None
    sighted: RaterAgreement | None
    pairs: tuple[PairAgreement, ...]
    reviewers: tuple[ReviewerFigures, ...]
    categories: Mapping[str, int]
    verifier: VerifierFigures

    @property
    def annotators(self) -> int:
        """How many people gave a verdict of their own."""
        return len(self.reviewers)


@dataclass(frozen=True)
class TaskReviews:
    """The reviews of one task: `same` is the share of pairs of first verdicts that agree, None for fewer than two."""

    task_id: str
    trials: int
    reviewed: int
    states: Mapping[ReviewState, int]
    same: float | None
    confusion: Confusion


@dataclass(frozen=True)
class AgreementReport:
    """Reviews of jobs: all together, each job by its folder, the verifier on each agent, and each reviewed task.

    `jobs` and `agents` are empty where there is only one, of which `overall` says the same.
    """

    overall: ReviewFigures
    jobs: tuple[ReviewFigures, ...]
    agents: Mapping[str, VerifierFigures]
    tasks: tuple[TaskReviews, ...]
    level: float
    seed: int


def agreement_report(jobs: Sequence[LoadedJob], *, level: float = 0.95, seed: int = 0) -> AgreementReport:
    """What the reviews of jobs amount to, by the trials that the jobs were filtered to."""
    cases = cases_of(jobs)
    folders = _grouped(cases, lambda case: str(case.job.path))
    agents = _grouped(cases, lambda case: case.trial.agent)
    tasks = _grouped((case for case in cases if case.review.last), lambda case: case.trial.task_id)
    counts = Counter(case.trial.task_id for case in cases)
    several = folders if len(folders) > 1 else {}
    return AgreementReport(
        overall=review_figures("all", cases, level=level, seed=seed),
        jobs=tuple(review_figures(name, group, level=level, seed=seed) for name, group in several.items()),
        agents={name: verifier_figures(group, level) for name, group in agents.items()} if len(agents) > 1 else {},
        tasks=tuple(_task(name, counts[name], group) for name, group in sorted(tasks.items())),
        level=level,
        seed=seed,
    )


def review_figures(name: str, cases: Sequence[ReviewCase], *, level: float = 0.95, seed: int = 0) -> ReviewFigures:
    reviews = _reviews(cases)
    first = [entry for case in cases for entry in case.review.first.values()]
    ratings = first_ratings(reviews)

    def agreement(wanted: Callable[[ReviewEntry], bool]) -> RaterAgreement:
        chosen = {trial: [each for each in entries if wanted(each)] for trial, entries in reviews.items()}
        return rater_agreement([*first_ratings(chosen).values()], labels=LABELS, level=level, seed=seed)

    has_both_kinds = len({entry.blind for entry in first}) == 2
    return ReviewFigures(
        name=name,
        trials=len(cases),
        reviewed=sum(bool(case.review.last) for case in cases),
        states=dict(Counter(case.review.state for case in cases if case.review.last)),
        deferred=sum(not is_decided(entry) for entry in first) / len(first) if first else None,
        agreement=rater_agreement([*ratings.values()], labels=LABELS, level=level, seed=seed),
        blind=agreement(lambda entry: entry.blind or entry.annotation is None) if has_both_kinds else None,
        sighted=agreement(lambda entry: not entry.blind) if has_both_kinds else None,
        pairs=tuple(pair_agreements([*ratings.values()])),
        reviewers=tuple(reviewer_figures(cases)),
        categories=_categories(cases),
        verifier=verifier_figures(cases, level),
    )


def _reviews(cases: Iterable[ReviewCase]) -> Reviews:
    """The reviews of trials, of which several jobs may have ones of the same id."""
    return {f"{case.job.path}/{case.trial.trial_id}": case.entries for case in cases if case.entries}


def _grouped(cases: Iterable[ReviewCase], key: Callable[[ReviewCase], str]) -> dict[str, list[ReviewCase]]:
    groups: defaultdict[str, list[ReviewCase]] = defaultdict(list)
    for case in cases:
        groups[key(case)].append(case)
    return groups


def _task(task_id: str, trials: int, cases: Sequence[ReviewCase]) -> TaskReviews:
    same = percent(items_of([*first_ratings(_reviews(cases)).values()]))
    return TaskReviews(
        task_id=task_id,
        trials=trials,
        reviewed=len(cases),
        states=dict(Counter(case.review.state for case in cases)),
        same=same.agreement if same else None,
        confusion=verifier_figures(cases).confusion,
    )


def _categories(cases: Iterable[ReviewCase]) -> dict[str, int]:
    counts = Counter(tag.category for case in cases for tag in human_tags(case.entries))
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


# Readiness: may a verdict of people, or a judge that learned from them, enter an aggregate? Each gate is open or
# closed, or cannot tell yet; all of them have to be open.

GateName = Literal["annotators", "agreement", "interval_width", "calibration_trials", "calibration_agreement"]
GateState = Literal["open", "closed", "unknown"]
Relation = Literal["at least", "below"]

LEAST_ANNOTATORS = 2
LEAST_AGREEMENT = 0.8
WIDEST_INTERVAL = 0.2
LEAST_CALIBRATED = 12
LEAST_CALIBRATION = 0.8


@dataclass(frozen=True, slots=True)
class ReadinessGate:
    """One condition: what was found, and what is needed. `found` is None where there is nothing to be judged by."""

    name: GateName
    state: GateState
    found: float | None
    needed: float
    relation: Relation
    reason: str


@dataclass(frozen=True, slots=True)
class Readiness:
    """All gates, in order."""

    gates: tuple[ReadinessGate, ...]

    @property
    def state(self) -> GateState:
        """`open` where all gates are; `closed` where one is; otherwise nobody can tell yet."""
        states = {gate.state for gate in self.gates}
        if "closed" in states:
            return "closed"
        return "unknown" if "unknown" in states else "open"

    @property
    def reasons(self) -> tuple[str, ...]:
        """The names of the gates that are not open, for programs."""
        return tuple(gate.name for gate in self.gates if gate.state != "open")


def readiness(figures: ReviewFigures) -> Readiness:
    """Whether reviews are good enough to build on."""
    return Readiness(tuple(_gates(figures)))


def _gates(figures: ReviewFigures) -> Iterator[ReadinessGate]:
    first = figures.agreement.first
    why_not = figures.agreement.reason
    wide = "there are too few trials of one kind for an interval" if first else why_not
    people = float(figures.annotators) if figures.annotators else None
    fewest = min(figures.reviewers, key=lambda each: each.calibrated, default=None)
    tested = [each for each in figures.reviewers if each.calibration is not None]
    worst = min(tested, key=lambda each: each.calibration or 0.0, default=None)
    yield gate_of("annotators", Found(people, "nobody has reviewed anything"), LEAST_ANNOTATORS)
    yield gate_of("agreement", Found(first.value if first else None, why_not), LEAST_AGREEMENT)
    yield gate_of("interval_width", Found(first.width if first else None, wide), WIDEST_INTERVAL, "below")
    yield gate_of("calibration_trials", _of(fewest, "calibrated"), LEAST_CALIBRATED)
    yield gate_of("calibration_agreement", _of(worst, "calibration"), LEAST_CALIBRATION)


@dataclass(frozen=True, slots=True)
class Found:
    """A number with why there is none; where it is that of one reviewer, with their name."""

    value: float | None
    why_not: str
    reviewer: str | None = None


def _of(reviewer: ReviewerFigures | None, name: Literal["calibrated", "calibration"]) -> Found:
    """A number of the reviewer for whom it is lowest: everybody has to be calibrated."""
    if reviewer is None:
        return Found(None, "nobody has judged a trial that is known to be right or wrong")
    return Found(float(getattr(reviewer, name)), "", reviewer.reviewer_id)


def gate_of(name: GateName, found: Found, needed: float, relation: Relation = "at least") -> ReadinessGate:
    if found.value is None:
        return ReadinessGate(name, "unknown", None, needed, relation, found.why_not)
    is_open = found.value >= needed if relation == "at least" else found.value < needed
    whose = f" by {found.reviewer}" if found.reviewer else ""
    reason = f"found {format_reward(found.value)}{whose}, needed {relation} {needed:g}"
    return ReadinessGate(name, "open" if is_open else "closed", found.value, needed, relation, reason)


# JSON


def agreement_json(report: AgreementReport, ready: Readiness) -> dict[str, Any]:
    """A report and whether it is good enough to build on, as one JSON object."""
    return {
        "level": report.level,
        "seed": report.seed,
        "overall": _figures_as_json(report.overall),
        "jobs": [_figures_as_json(each) for each in report.jobs],
        "agents": {name: asdict(each) for name, each in report.agents.items()},
        "tasks": [asdict(each) for each in report.tasks],
        "readiness": {
            "state": ready.state,
            "reasons": list(ready.reasons),
            "gates": [asdict(gate) for gate in ready.gates],
        },
    }


def _figures_as_json(figures: ReviewFigures) -> dict[str, Any]:
    return {**asdict(figures), "annotators": figures.annotators}
