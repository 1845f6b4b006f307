"""A report as values: everything that is said of jobs, computed once, for whatever format it is written in.

Nothing here looks at a clock or at the order of a set, so the same jobs and options give the same document.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Literal

from seatrial.analysis.arms import Arm, arms_of
from seatrial.analysis.comparability import Comparability, comparability
from seatrial.analysis.comparison import Comparison, after_holm, compare_arms
from seatrial.analysis.differences import Difference, difference_line
from seatrial.analysis.figures import Figures, corrected_of
from seatrial.analysis.heat import HeatMap, heat_map
from seatrial.analysis.leaderboard import Leaderboard, rank_arms
from seatrial.analysis.loaded import LoadedJob
from seatrial.analysis.taxonomy import Taxonomy, taxonomy_of
from seatrial.errors import UsageError
from seatrial.report.methods import Computed, methods
from seatrial.report.text import harmless
from seatrial.review.agreement import AgreementReport, agreement_report
from seatrial.stats.corrected import CorrectedMean

_MOST_REASONS = 10


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """What a reader may ask for. `baseline` is the label of an arm, the first one where it is None.

    `clusters` of `family` takes tasks of one family as one. `filters` are what trials were chosen by, in the words of
    the user.
    """

    title: str | None = None
    baseline: str | None = None
    level: float = 0.95
    seed: int = 0
    clusters: Literal["task", "family"] = "task"
    comparability: Literal["required", "forced"] = "required"
    filters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReportNotice:
    """What a reader must know before comparing: two arms whose rewards do not mean the same, and why.

    A `refused` comparison was not made; a `forced` one was, because somebody insisted.
    """

    kind: Literal["refused", "forced"]
    text: str


@dataclass(frozen=True, slots=True)
class AdjustedComparison:
    """One of several comparisons; `adjusted` is its p-value after Holm, None where there was nothing to compare.

    `conditions` are what else differs between both, and `warnings` what makes the comparison doubtful.
    """

    comparison: Comparison
    adjusted: float | None
    conditions: tuple[Difference, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Period:
    """When the first and the last trial were started, as their records say: ISO 8601, to the second."""

    first: str
    last: str


@dataclass(frozen=True)
class ReportDocument:
    """Everything that a report says. `figures` and `corrected` are in the order of `arms`; `baseline` is one of them.

    `comparisons` are of each arm with the baseline, and of the first two in the ranking where the baseline is neither;
    `lead` is that of the first two, None where there are no two with a mean or they cannot be compared. `people` is
    what reviewers say, None where nobody has said anything.
    """

    title: str
    options: ReportOptions
    jobs: tuple[LoadedJob, ...]
    arms: tuple[Arm, ...]
    figures: tuple[Figures, ...]
    corrected: tuple[CorrectedMean | None, ...]
    baseline: Arm
    comparisons: tuple[AdjustedComparison, ...]
    lead: AdjustedComparison | None
    leaderboard: Leaderboard
    heat: HeatMap
    taxonomy: Taxonomy
    people: AgreementReport | None
    period: Period | None
    notices: tuple[ReportNotice, ...]
    methods: tuple[str, ...]

    @property
    def thresholds(self) -> tuple[float, ...]:
        """The rewards from which on a trial has passed; several where jobs do not agree."""
        return tuple(sorted({each for job in self.jobs for each in job.thresholds}))

    @property
    def forced(self) -> bool:
        """Whether rewards of different meaning stand side by side because somebody insisted."""
        return any(notice.kind == "forced" for notice in self.notices)

    @property
    def tested(self) -> int:
        """How many comparisons have a p-value, which is adjusted for all of them."""
        return sum(each.adjusted is not None for each in self.comparisons)

    @property
    def ranked(self) -> list[tuple[Arm, Figures]]:
        """Arms that have a mean, the highest first."""
        both = [(arm, figures) for arm, figures in zip(self.arms, self.figures, strict=True) if figures.mean]
        return sorted(both, key=lambda each: -each[1].mean.value if each[1].mean else 0.0)


def make_document(jobs: Sequence[LoadedJob], options: ReportOptions | None = None) -> ReportDocument:
    """The document of jobs. Raises UsageError where no agent is to be reported, or none has the baseline's name."""
    options = options or ReportOptions()
    arms = arms_of(jobs)
    baseline = _baseline(arms, options.baseline)
    clusters = _clusters(arms, options)
    leaderboard = rank_arms(arms, clusters=clusters, level=options.level, seed=options.seed)
    known = {row.arm.label: row.figures for row in leaderboard.rows}
    figures = [known[arm.label] for arm in arms]
    first_two = _first_two(arms, figures)
    comparisons, notices = _comparisons(_pairs(arms, first_two, baseline), clusters, options)
    return ReportDocument(
        title=options.title or _title(jobs),
        options=options,
        jobs=tuple(jobs),
        arms=tuple(arms),
        figures=tuple(figures),
        corrected=tuple(corrected_of(arm, clusters=clusters, level=options.level) for arm in arms),
        baseline=baseline,
        comparisons=comparisons,
        lead=next((each for each in comparisons if _is_of(each.comparison, first_two)), None),
        leaderboard=leaderboard,
        heat=heat_map(arms),
        taxonomy=taxonomy_of(arms, level=options.level),
        people=_people(jobs, options),
        period=_period(jobs),
        notices=tuple(notices),
        methods=tuple(methods(_computed(arms, comparisons, notices, options))),
    )


def _people(jobs: Sequence[LoadedJob], options: ReportOptions) -> AgreementReport | None:
    if not any(job.reviews for job in jobs):
        return None
    found = agreement_report(jobs, level=options.level, seed=options.seed)
    return found if found.overall.reviewed else None


def _computed(
    arms: Sequence[Arm], made: Sequence[AdjustedComparison], notices: Sequence[ReportNotice], options: ReportOptions
) -> Computed:
    comparisons = [each.comparison for each in made]
    forced = ["a reward does not mean the same for all of them"] if any(n.kind == "forced" for n in notices) else []
    tested = sum(each.adjusted is not None for each in made)
    return Computed(
        arms=arms,
        version=version("seatrial"),
        comparisons=comparisons,
        level=options.level,
        seed=options.seed,
        by_family=options.clusters == "family",
        filters=options.filters,
        adjusted=tested if tested > 1 else 0,
        forced=forced,
    )


def _title(jobs: Sequence[LoadedJob]) -> str:
    names = list(dict.fromkeys(job.name for job in jobs))
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _baseline(arms: Sequence[Arm], label: str | None) -> Arm:
    if not arms:
        raise UsageError("a report needs a job with an agent, and there is none")
    if label is None:
        return arms[0]
    found = [arm for arm in arms if arm.label == label] or [arm for arm in arms if arm.agent == label]
    if len(found) == 1:
        return found[0]
    known = ", ".join(harmless(arm.label) for arm in arms)
    raise UsageError(f"baseline {harmless(label)!r}: expected one of {known}")


def _clusters(arms: Sequence[Arm], options: ReportOptions) -> dict[str, str] | None:
    """Which tasks belong together: those of one family, if that was asked for."""
    if options.clusters == "task":
        return None
    families = {task: arm.job.labels_of(task).family for arm in arms for task in arm.rewards}
    return {task: f"family {family}" for task, family in families.items() if family}


def _pairs(arms: Sequence[Arm], first_two: Sequence[Arm], baseline: Arm) -> list[tuple[Arm, Arm]]:
    """Who is compared with whom: every arm with the baseline, and the best two, the better one second."""
    pairs = [(baseline, arm) for arm in arms if arm is not baseline]
    if first_two and not any(arm is baseline for arm in first_two):
        pairs.append((first_two[1], first_two[0]))
    return pairs


def _comparisons(
    pairs: Sequence[tuple[Arm, Arm]], clusters: Mapping[str, str] | None, options: ReportOptions
) -> tuple[tuple[AdjustedComparison, ...], list[ReportNotice]]:
    """The comparisons that can be made, or that were insisted on, and what is said about those that cannot."""
    checked = [(first, second, comparability(first, second)) for first, second in pairs]
    notices = [_notice(each, options) for each in checked if not each[2].comparable]
    allowed = [each for each in checked if each[2].comparable or options.comparability == "forced"]
    made = [compare_arms(first, second, options.level, options.seed, clusters) for first, second, _ in allowed]
    found = []
    for comparison, (_, _, differences) in zip(after_holm(made), allowed, strict=True):
        conditions = tuple(differences.of("condition"))
        found.append(AdjustedComparison(comparison, comparison.p_value, conditions, differences.warnings))
    return tuple(found), notices


def _notice(checked: tuple[Arm, Arm, Comparability], options: ReportOptions) -> ReportNotice:
    first, second, differences = checked
    why = "; ".join(difference_line(each) for each in differences.of("meaning")[:_MOST_REASONS])
    if options.comparability == "forced":
        text = f"{second.label} is compared with {first.label} although a reward does not mean the same for both: {why}"
        return ReportNotice("forced", text)
    text = f"{second.label} is not compared with {first.label}, because a reward does not mean the same for both: {why}"
    return ReportNotice("refused", text)


def _first_two(arms: Sequence[Arm], figures: Sequence[Figures]) -> list[Arm]:
    """The arms with the two highest means, the highest first; none where there are no two."""
    means = [(each.mean.value, arm) for arm, each in zip(arms, figures, strict=True) if each.mean]
    ranked = [arm for _, arm in sorted(means, key=lambda pair: -pair[0])]
    return ranked[:2] if len(ranked) > 1 else []


def _is_of(comparison: Comparison, arms: Sequence[Arm]) -> bool:
    return {id(comparison.first), id(comparison.second)} == {id(arm) for arm in arms}


def _period(jobs: Sequence[LoadedJob]) -> Period | None:
    started = [trial.started_at for job in jobs for trial in job.trials if trial.started_at]
    return Period(min(started)[:19], max(started)[:19]) if started else None
