"""Is a judge to be believed? Judges as raters beside people: how often they are right, and what that is good for.

A judge is bound to its models, its rubric, its prompt and its number of samples: with any of them changed it is another
rater, of which nothing is known yet. Its verdict is whether its score reaches the pass mark. A question by itself is
compared with what people say of the same category, where they use one, and else with their verdict.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple

from seatrial.analysis.loaded import LoadedJob, human_tags
from seatrial.model.assessment import AssessedQuestion, Assessment
from seatrial.model.evaluation import Judgment, category_slug
from seatrial.review.agreement import (
    LEAST_CALIBRATED,
    LEAST_CALIBRATION,
    WIDEST_INTERVAL,
    Found,
    Readiness,
    gate_of,
    readiness,
    review_figures,
)
from seatrial.review.cases import ReviewCase, Verdict, VerifierFigures, by_people, cases_of, needed_labels
from seatrial.review.cases import verifier_figures as figures_beside_people
from seatrial.stats.agreement import AgreementEstimate, Verdicts, cohen, estimate_agreement
from seatrial.stats.corrected import Confusion, WeightedShare

_OF_PEOPLE = ("annotators", "agreement")
_PASS, _FAIL = Judgment.PASS.value, Judgment.FAIL.value
_PAIRS = ((_PASS, _PASS), (_PASS, _FAIL), (_FAIL, _PASS), (_FAIL, _FAIL))
_SHORT = 8
_LEAST_OF_EACH = 5
"""With fewer trials of a kind, a judge that is right about all of them may still be wrong about most."""


class JudgeIdentity(NamedTuple):
    """Who judged: the same judge has all of it the same."""

    models: tuple[str, ...]
    rubric: str
    rubric_digest: str
    prompt_digest: str
    samples: int

    @property
    def name(self) -> str:
        """Models and rubric."""
        return f"{', '.join(self.models)} by {self.rubric}"

    @property
    def version(self) -> str:
        """What of it may have changed, in short."""
        samples = f", {self.samples} samples" if self.samples > 1 else ""
        return f"rubric {self.rubric_digest[:_SHORT]}, prompt {self.prompt_digest[:_SHORT]}{samples}"


def identity_of(assessment: Assessment) -> JudgeIdentity:
    models = tuple(sorted(judge.model for judge in assessment.judges))
    digests = assessment.rubric_digest, assessment.prompt_digest
    return JudgeIdentity(models, assessment.rubric, *digests, assessment.sampling.samples)


@dataclass(frozen=True, slots=True)
class JudgeAgainstPeople:
    """Verdicts of a judge, on whole trials or by one question, beside those of people.

    `category` is what people name where they mean the same as the question; None where it is compared with their
    verdict. `base_rate` is how much of what both judged people pass: where almost all is one kind, a judge that
    always answers the same is right most of the time, and only `kappa` (Cohen's) shows it.
    """

    question: str | None
    category: str | None
    figures: VerifierFigures
    kappa: AgreementEstimate | None
    base_rate: float | None


@dataclass(frozen=True, slots=True)
class JudgeFigures:
    """What one judge amounts to. `assessed` of `trials` have an assessment, and `scored` of them a score.

    `labels_needed` is how many trials people have to label for a corrected rate whose interval is as wide as asked for,
    None where no number is known. `agents` is empty where there is only one.
    """

    identity: JudgeIdentity
    trials: int
    assessed: int
    scored: int
    overall: JudgeAgainstPeople
    questions: tuple[JudgeAgainstPeople, ...]
    agents: Mapping[str, VerifierFigures]
    width: float
    labels_needed: int | None
    ready: Readiness


def judge_figures(
    jobs: Sequence[LoadedJob], *, width: float = WIDEST_INTERVAL, level: float = 0.95, seed: int = 0
) -> tuple[JudgeFigures, ...]:
    """Every judge of some jobs, in the order in which they first judged. Trials are those the jobs were filtered to."""
    if not any(job.assessments for job in jobs):
        return ()
    cases = cases_of(jobs)
    people = readiness(review_figures("all", cases, level=level, seed=seed))
    named = _Named({category_slug(tag.category) for case in cases for tag in human_tags(case.entries)})
    options = _Options(width, level, seed)
    return tuple(_figures(each, cases, found, people, named, options) for each, found in _found(cases).items())


class _Options(NamedTuple):
    width: float
    level: float
    seed: int


class _Named(NamedTuple):
    """The categories that people use."""

    categories: set[str]

    def of(self, *names: str | None) -> str | None:
        """The first of some names that is one."""
        slugs = (category_slug(name) for name in names if name)
        return next((slug for slug in slugs if slug in self.categories), None)


Assessed = Mapping[int, Assessment]
"""The assessments of one judge, by the identity of their case."""


def _found(cases: Iterable[ReviewCase]) -> dict[JudgeIdentity, dict[int, Assessment]]:
    """Of each judge the latest assessments, of the revisions that count."""
    found: dict[JudgeIdentity, dict[int, Assessment]] = {}
    for case in cases:
        for each in case.job.assessments.get(case.trial.trial_id, ()):
            if each.revision == case.trial.revision:
                found.setdefault(identity_of(each), {})[id(case)] = each
    return found


def _figures(
    who: JudgeIdentity,
    cases: Sequence[ReviewCase],
    found: Assessed,
    people: Readiness,
    named: _Named,
    options: _Options,
) -> JudgeFigures:
    mine = [case for case in cases if id(case) in found]
    by_score = _verdict(found, lambda each: each.score)
    agents = {case.trial.agent: None for case in mine}
    overall = _against(mine, (None, None), by_score, by_people, options)
    return JudgeFigures(
        identity=who,
        trials=len(cases),
        assessed=len(mine),
        scored=sum(each.score is not None for each in found.values()),
        overall=overall,
        questions=tuple(_questions(mine, found, named, options)),
        agents={
            name: figures_beside_people([case for case in mine if case.trial.agent == name], options.level, by_score)
            for name in (agents if len(agents) > 1 else ())
        },
        width=options.width,
        labels_needed=needed_labels(mine, options.width, options.level, by_score),
        ready=_readiness(overall.figures.confusion, people),
    )


def _verdict(found: Assessed, score_of: Callable[[Assessment], float | None]) -> Verdict:
    def verdict(case: ReviewCase) -> bool | None:
        each = found.get(id(case))
        score = score_of(each) if each else None
        return None if score is None else score >= case.job.threshold_of(case.trial)

    return verdict


def _questions(
    cases: Sequence[ReviewCase], found: Assessed, named: _Named, options: _Options
) -> Iterable[JudgeAgainstPeople]:
    """Each question that has verdicts; labels are questions of their own where people use the same category."""
    every = {each.id: each for assessment in found.values() for each in assessment.questions}
    for name, question in every.items():
        if question.kind == "labels":
            answers = [_question(each, name) for each in found.values()]
            used = {label for each in answers if each and isinstance(each.answer, tuple) for label in each.answer}
            for label in sorted(label for label in used if named.of(label)):
                category = named.of(label)
                verdict = _verdict(found, partial(_without, name, label))
                yield _against(cases, (f"{name}: {label}", category), verdict, _by_category(category), options)
        else:
            category = named.of(question.tag, question.id)
            verdict = _verdict(found, partial(_score, name))
            yield _against(cases, (name, category), verdict, _by_category(category), options)


def _question(assessment: Assessment, name: str) -> AssessedQuestion | None:
    return next((each for each in assessment.questions if each.id == name), None)


def _score(name: str, assessment: Assessment) -> float | None:
    question = _question(assessment, name)
    return question.score if question else None


def _without(name: str, label: str, assessment: Assessment) -> float | None:
    """1 for a trial that did not get a label, None where the question is unscored."""
    question = _question(assessment, name)
    if question is None or not isinstance(question.answer, tuple):
        return None
    return float(label not in question.answer)


def _by_category(category: str | None) -> Verdict:
    """Whether people who decided a trial left a category out, which is a pass of what it is about."""
    if category is None:
        return by_people

    def verdict(case: ReviewCase) -> bool | None:
        if case.people_passed is None:
            return None
        return category not in {category_slug(tag.category) for tag in human_tags(case.entries)}

    return verdict


def _against(
    cases: Sequence[ReviewCase],
    question: tuple[str | None, str | None],
    verdict: Verdict,
    people: Verdict,
    options: _Options,
) -> JudgeAgainstPeople:
    figures = figures_beside_people(cases, options.level, verdict, people)
    found = figures.confusion
    counts = (found.both_pass, found.only_verifier, found.only_people, found.both_fail)
    pairs: dict[Verdicts, int] = {pair: count for pair, count in zip(_PAIRS, counts, strict=True) if count}
    passed = found.both_pass + found.only_people
    return JudgeAgainstPeople(
        *question,
        figures=figures,
        kappa=estimate_agreement(cohen, pairs, level=options.level, seed=options.seed),
        base_rate=passed / found.trials if found.trials else None,
    )


# Readiness: a judge needs people who agree with each other, and has to be right by them about both kinds of trials. An
# agreement alone would let a judge through that passes everything, where almost everything is good.


def _readiness(confusion: Confusion, people: Readiness) -> Readiness:
    both = [share for share in (confusion.recall, confusion.specificity) if share and share.trials >= _LEAST_OF_EACH]
    worst = min(both, key=lambda share: share.value) if len(both) == 2 else None
    trials = float(confusion.trials) if confusion.trials else None
    unlabelled = "people have labelled no trial that it judged"
    one_kind = f"of the trials that it judged, people have not passed {_LEAST_OF_EACH} and failed {_LEAST_OF_EACH}"
    one_kind = one_kind if trials else unlabelled
    return Readiness(
        (
            *(gate for gate in people.gates if gate.name in _OF_PEOPLE),
            gate_of("interval_width", Found(_width(confusion.agreement), unlabelled), WIDEST_INTERVAL, "below"),
            gate_of("calibration_trials", Found(trials, unlabelled), LEAST_CALIBRATED),
            gate_of("calibration_agreement", Found(worst.value if worst else None, one_kind), LEAST_CALIBRATION),
        )
    )


def _width(share: WeightedShare | None) -> float | None:
    return None if share is None or math.isinf(share.effective) else share.high - share.low


# JSON


def judges_json(judges: Iterable[JudgeFigures]) -> list[dict[str, Any]]:
    """Judges with everything that is known of them."""
    return [
        {
            **asdict(each),
            "identity": each.identity._asdict(),
            "ready": {"state": each.ready.state, "reasons": list(each.ready.reasons), **asdict(each.ready)},
        }
        for each in judges
    ]


def judges_in_short(judges: Iterable[JudgeFigures]) -> list[dict[str, Any]]:
    """Judges as results show them: rates only of those that may enter an aggregate, for others the reasons."""
    return [
        {
            **each.identity._asdict(),
            "assessed": each.assessed,
            "calibrated": each.ready.state == "open",
            "reasons": list(each.ready.reasons),
            "pass_rate": each.overall.figures.pass_rate if each.ready.state == "open" else None,
            "corrected": asdict(each.overall.figures.powered)
            if each.ready.state == "open" and each.overall.figures.powered
            else None,
        }
        for each in judges
    ]
