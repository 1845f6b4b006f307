"""What the reviews of jobs amount to: how far people agree, with each other, with what is known, with the verifier.

People are compared by what they said first, on their own. What they say after they knew of others settles trials, and
says nothing of how alike they judge.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from seatrial.analysis.loaded import LoadedJob
from seatrial.analysis.reviewed import LABELS, Reviews, first_ratings, human_tags
from seatrial.model.review import ReviewEntry
from seatrial.review.cases import ReviewCase, cases_of
from seatrial.review.reviewers import ReviewerFigures, reviewer_figures
from seatrial.review.states import ReviewState, is_decided
from seatrial.review.verifier import VerifierFigures, verifier_figures
from seatrial.stats.agreement import items_of, percent
from seatrial.stats.diagnostic import Confusion
from seatrial.stats.raters import PairAgreement, RaterAgreement, pair_agreements, rater_agreement


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
    """What the reviews of some trials amount to."""
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
