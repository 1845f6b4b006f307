"""A report as values: everything that is said of jobs, computed once, for whatever format it is written in.

Nothing here looks at a clock or at the order of a set, so the same jobs and options give the same document.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from seatrial.analysis.arms import Arm, arms_of
from seatrial.analysis.behaviour import BehaviourFigures, WorkItem, arm_behaviour, worklist
from seatrial.analysis.comparability import Comparability, Difference, comparability, difference_line
from seatrial.analysis.compare import Comparison, after_holm, compare_arms
from seatrial.analysis.failures import Taxonomy, taxonomy_of
from seatrial.analysis.figures import Figures, corrected_of
from seatrial.analysis.groups import HeatMap, heat_map
from seatrial.analysis.leaderboard import Leaderboard, rank_arms
from seatrial.analysis.loaded import LoadedJob
from seatrial.analysis.tables import Row, Table, interval
from seatrial.errors import UsageError
from seatrial.model.outcome import format_mean, format_range, format_reward
from seatrial.model.record import ImportedJob
from seatrial.report.tables import estimate_cells
from seatrial.report.text import bounds_text, counted, format_cost, format_duration, harmless, p_number, p_text, points
from seatrial.review.agreement import AgreementReport, agreement_report
from seatrial.review.judges import JudgeFigures, judge_figures
from seatrial.stats.corrected import CorrectedMean
from seatrial.stats.estimates import Estimate
from seatrial.stats.paired import Paired, PairTest
from seatrial.stats.sign_flips import EXACT_UP_TO, fewest_tasks

# The methods paragraph of a report: what exactly was computed, in sentences made from the values it was computed with.
#
# Names in it are strangers' text: what writes the sentences into a page or a file has to escape them.


_NAMED = 5
"""How many things a sentence names before it counts the rest."""

_UNIT = (
    "The unit of analysis is the task: the rewards of a task's scored trials are averaged first,"
    " and a mean is over tasks."
)
INTERVAL = "Student's t with two tasks more at each end of the range, after Agresti and Coull"
DIFFERENCE_INTERVAL = "every difference that the sign-flip test does not reject"
"""How intervals are made, in the words of a caption."""

_INTERVAL = (
    "Intervals have a level of {level}: Student's t over the means of tasks, with two tasks more at each end of the"
    " range from 0 to 1 (after Agresti and Coull), so that none is without a width."
)
_REPEATS = (
    "pass@k is the chance that at least one of k attempts at a task passes and pass^k the chance that all k do, both"
    " estimated without bias and as means over the tasks that have at least k scored attempts."
)
_PAIRS = (
    "Agents are compared on the tasks that both were scored on, by the difference of their means at each task;"
    " what only one of them was scored on does not count."
)
_DIFFERENCE = (
    "The interval of a mean difference has every shift of the differences that the test below does not reject, so it"
    " excludes 0 where the p-value is at most {error}. Where fewer than {fewest} {units} differ, it is what the shares"
    " of tasks won and lost can be (Clopper and Pearson); with fewer than {fewest} {units}, it is -100 to 100."
)
_FAMILIES = "Tasks of one family count as one cluster in the intervals of mean rewards, pass rates, pass@k and pass^k."
_BY_FAMILY = "In comparisons, too, tasks of one family count as one cluster, and their signs flip together."
_DETECTABLE = (
    "The detectable difference is the one that a two-sided test at {error} would find four times out of five with as"
    " many tasks that differ as much."
)


@dataclass(frozen=True, slots=True)
class Computed:
    """What a report computed, and by which `version` of this program.

    `by_family` treats tasks of one family as one cluster. `filters` are what chose the trials. `adjusted` is the
    number of comparisons that p-values are adjusted for after Holm, 0 where they are not. `forced` are the differences
    for which a comparison would have been refused.
    """

    arms: Sequence[Arm]
    version: str
    comparisons: Sequence[Comparison] = ()
    level: float = 0.95
    seed: int = 0
    by_family: bool = False
    filters: Sequence[str] = ()
    adjusted: int = 0
    forced: Sequence[str] = ()


def methods(computed: Computed) -> list[str]:
    """The sentences, in the order they are read."""
    return [
        *_data(computed),
        *_passing(_jobs(computed)),
        *_estimation(computed),
        *_repeats(computed.arms),
        *_comparing(computed),
        *_without_verdict(computed.arms),
        *_doubtful(computed.arms),
        *_versions(computed),
    ]


def _jobs(computed: Computed) -> list[LoadedJob]:
    return [*{id(arm.job): arm.job for arm in computed.arms}.values()]


def _data(computed: Computed) -> list[str]:
    jobs, arms = _jobs(computed), computed.arms
    tasks = {task.id for job in jobs for task in job.file.tasks}
    attempts = sorted({job.file.spec.attempts for job in jobs})
    figures = [arm.figures for arm in arms]
    planned, finished, scored = (
        sum(getattr(each, name) for each in figures) for name in ("planned", "finished", "scored")
    )
    asked = f"{counted(len(arms), 'agent')} on {counted(len(tasks), 'task')} and {_range(attempts)} per task and agent"
    ran = f"{counted(planned, 'trial')} planned, {finished:,} with a record, {scored:,} scored"
    lines = [f"The report covers {counted(len(jobs), 'job')} with {asked}: {ran}."]
    if computed.filters:
        lines.append(f"Only trials with {_listed(computed.filters)} are in it.")
    left_out = sum(count.tasks for job in jobs for count in job.summary.left_out)
    if left_out:
        lines.append(f"Chosen tasks without any trial, {left_out:,} in number, are in no figure.")
    uncounted = sum(len(job.uncounted) for job in jobs)
    if uncounted:
        records = counted(uncounted, "record of a trial is", "records of trials are")
        lines.append(f"{records} not sound, and in no figure.")
    return lines


def _range(attempts: Sequence[int]) -> str:
    if len(attempts) == 1:
        return counted(attempts[0], "attempt")
    return f"{attempts[0]:,} to {attempts[-1]:,} attempts" if attempts else "no attempts"


def _passing(jobs: Sequence[LoadedJob]) -> list[str]:
    thresholds = sorted({each for job in jobs for each in job.thresholds})
    if not thresholds:
        return []
    shown = " or ".join(map(format_reward, thresholds))
    each = ", as its job or its last judging says" if len(thresholds) > 1 else ""
    return [f"A trial passed if its reward is at least {shown}{each}."]


def _estimation(computed: Computed) -> list[str]:
    if not any(arm.scored for arm in computed.arms):
        return ["No trial was scored, so there is no estimate."]
    lines = [_UNIT, _INTERVAL.format(level=_percent(computed.level))]
    if computed.by_family:
        lines.append(_FAMILIES)
    return lines


def _repeats(arms: Sequence[Arm]) -> list[str]:
    if not any(judged > 1 for arm in arms for judged, _ in arm.attempts.values()):
        return []
    return [_REPEATS]


def _comparing(computed: Computed) -> list[str]:
    made = [comparison for comparison in computed.comparisons if comparison.paired]
    if not made:
        return []
    alpha = 1.0 - computed.level
    units = "tasks" if all(each.families is None for each in made) else "families"
    error = _percent(round(alpha, 6))
    difference = _DIFFERENCE.format(error=error, fewest=fewest_tasks(alpha), units=units)
    lines = [_PAIRS, difference, _test(made, units, computed.seed)]
    if computed.by_family:
        families = all(comparison.families is not None for comparison in made)
        lines.append(_BY_FAMILY if families else "Comparisons take every task by itself, also those of one family.")
    if computed.adjusted:
        lines.append(
            f"p-values are adjusted after Holm for {counted(computed.adjusted, 'comparison')}, those of ranks included,"
            " and each interval is as wide as its adjusted p-value asks for."
        )
    lines.append(_DETECTABLE.format(error=error))
    if computed.forced:
        lines.append(f"The comparison was forced although {_listed(computed.forced)}.")
    return lines


def _test(made: Sequence[Comparison], units: str, seed: int) -> str:
    drawn = {each.paired.draws for each in made if each.paired}
    parts = []
    if 0 in drawn:
        parts.append(f"exact up to {EXACT_UP_TO} {units} with a difference")
    if times := " or ".join(f"{count:,}" for count in sorted(drawn - {0})):
        parts.append(f"drawn {times} times with the seed {seed} for more than {EXACT_UP_TO} {units} with a difference")
    return f"p-values are two-sided, of a test that flips the signs of the differences: {', '.join(parts)}."


def _without_verdict(arms: Sequence[Arm]) -> list[str]:
    figures = [arm.figures for arm in arms]
    parts = [
        ("could not be run", sum(each.infrastructure for each in figures)),
        ("the verifier could not judge", sum(each.invalid for each in figures)),
        ("cancelled", sum(each.counts.get("cancelled", 0) for each in figures)),
        ("not run", sum(each.open for each in figures)),
    ]
    said = [f"{count:,} ({what})" for what, count in parts if count]
    if not said:
        return ["Every planned trial was scored."]
    means = [f"{arm.label} {format_mean(mean)}" for arm in arms if (mean := arm.figures.mean_if_failed) is not None]
    lines = [f"Trials without a verdict are in no mean, and none of them counts as 0: {_listed(said)}."]
    if any(each.infrastructure or each.invalid or each.counts.get("cancelled", 0) for each in figures) and means:
        lines.append(f"If those with a record had failed, the means would be: {_listed(means)}.")
    return lines


def _doubtful(arms: Sequence[Arm]) -> list[str]:
    lines = []
    figures: list[Figures] = [arm.figures for arm in arms]
    if disputed := sum(each.disputed for each in figures):
        lines.append(f"{counted(disputed, 'verdict is', 'verdicts are')} disputed; the lower reward counts.")
    if regraded := sum(each.regraded for each in figures):
        lines.append(f"{counted(regraded, 'trial was', 'trials were')} judged again; the newest verdict counts.")
    return lines


def _versions(computed: Computed) -> list[str]:
    jobs = _jobs(computed)
    own = sorted({job.file.seatrial_version for job in jobs if not job.file.imported})
    others = sorted({_source(job.file.imported) for job in jobs if job.file.imported})
    run_here = f"were run by Seatrial {_listed(own)}" if own else ""
    elsewhere = f"were imported from results of {_listed(others)}" if others else ""
    ran = f"The trials {' or '.join(filter(None, [run_here, elsewhere]))}." if jobs else ""
    return [
        *filter(None, [ran]),
        f"The figures were computed by Seatrial {computed.version} with the seed {computed.seed}.",
    ]


def _source(imported: ImportedJob) -> str:
    program = "Harbor" if imported.format == "harbor" else imported.format
    mapped = imported.reward_range
    scaled = f", whose rewards from {mapped[0]:g} to {mapped[1]:g} were mapped onto 0 to 1" if mapped else ""
    return f"{program} {imported.version or 'of an unknown version'}{scaled}"


def _percent(level: float) -> str:
    return f"{100 * level:g} %"


def _listed(words: Sequence[str]) -> str:
    shown = [*words[:_NAMED], *([f"{len(words) - _NAMED:,} more"] if len(words) > _NAMED else [])]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


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
    `lead` is that of the first two, None where there are no two with a mean or they cannot be compared. `behaviour`
    is what agents did in their turns, where that was classified, and `work` what to do about failures. `people` is what
    reviewers say, None where nobody has said anything; `judges` are those that assessed any of the trials.
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
    behaviour: tuple[BehaviourFigures, ...]
    work: tuple[WorkItem, ...]
    people: AgreementReport | None
    judges: tuple[JudgeFigures, ...]
    tested: int
    """How many comparisons p-values are adjusted for: those shown, and those that ranks go by."""
    period: Period | None
    notices: tuple[ReportNotice, ...]
    methods: tuple[str, ...]
    folder: Path | None = None
    """Where it is going to lie, for what links from there; None where it is printed."""

    @property
    def thresholds(self) -> tuple[float, ...]:
        """The rewards from which on a trial has passed; several where jobs do not agree."""
        return tuple(sorted({each for job in self.jobs for each in job.thresholds}))

    @property
    def forced(self) -> bool:
        """Whether rewards of different meaning stand side by side because somebody insisted."""
        return any(notice.kind == "forced" for notice in self.notices)

    @property
    def ranked(self) -> list[tuple[Arm, Figures]]:
        """Arms that have a mean, the highest first."""
        both = [(arm, figures) for arm, figures in zip(self.arms, self.figures, strict=True) if figures.estimate]
        return sorted(both, key=lambda each: -(each[1].mean or 0.0))


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
    pairs = _pairs(arms, first_two, baseline)
    others = _others(leaderboard, pairs)
    comparisons, notices = _comparisons(pairs, others, clusters, options)
    tested = len(others) + sum(each.adjusted is not None for each in comparisons)
    taxonomy = taxonomy_of(arms, level=options.level)
    return ReportDocument(
        title=options.title or _title(jobs),
        options=options,
        jobs=tuple(jobs),
        arms=tuple(arms),
        figures=tuple(figures),
        corrected=tuple(corrected_of(arm.selected, clusters=clusters, level=options.level) for arm in arms),
        baseline=baseline,
        comparisons=comparisons,
        lead=next((each for each in comparisons if _is_of(each.comparison, first_two)), None),
        leaderboard=leaderboard,
        heat=heat_map(arms),
        taxonomy=taxonomy,
        behaviour=arm_behaviour(arms, level=options.level, clusters=clusters),
        work=worklist(arms, taxonomy),
        people=_people(jobs, options),
        judges=judge_figures(jobs, level=options.level, seed=options.seed),
        tested=tested,
        period=_period(jobs),
        notices=tuple(notices),
        methods=tuple(methods(_computed(arms, comparisons, notices, tested, options))),
    )


def _people(jobs: Sequence[LoadedJob], options: ReportOptions) -> AgreementReport | None:
    if not any(job.reviews for job in jobs):
        return None
    found = agreement_report(jobs, level=options.level, seed=options.seed)
    return found if found.overall.reviewed else None


def _computed(
    arms: Sequence[Arm],
    made: Sequence[AdjustedComparison],
    notices: Sequence[ReportNotice],
    tested: int,
    options: ReportOptions,
) -> Computed:
    comparisons = [each.comparison for each in made]
    forced = ["a reward does not mean the same for all of them"] if any(n.kind == "forced" for n in notices) else []
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


def _others(leaderboard: Leaderboard, pairs: Sequence[tuple[Arm, Arm]]) -> list[PairTest]:
    """The tests of two agents that are ranked but not compared. On one page no pair has two p-values."""
    compared = {frozenset((first.label, second.label)) for first, second in pairs}
    return [test for pair, test in leaderboard.ranking.tests.items() if frozenset(pair) not in compared]


def _comparisons(
    pairs: Sequence[tuple[Arm, Arm]],
    others: Sequence[PairTest],
    clusters: Mapping[str, str] | None,
    options: ReportOptions,
) -> tuple[tuple[AdjustedComparison, ...], list[ReportNotice]]:
    """The comparisons that can be made, or that were insisted on, and what is said about those that cannot."""
    checked = [(first, second, comparability(first, second)) for first, second in pairs]
    notices = [_notice(each, options) for each in checked if not each[2].comparable]
    allowed = [each for each in checked if each[2].comparable or options.comparability == "forced"]
    made = [compare_arms(first, second, options.level, options.seed, clusters) for first, second, _ in allowed]
    found = []
    for comparison, (_, _, differences) in zip(after_holm(made, others), allowed, strict=True):
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
    means = [(each.mean, arm) for arm, each in zip(arms, figures, strict=True) if each.mean is not None]
    ranked = [arm for _, arm in sorted(means, key=lambda pair: -pair[0])]
    return ranked[:2] if len(ranked) > 1 else []


def _is_of(comparison: Comparison, arms: Sequence[Arm]) -> bool:
    return {id(comparison.first), id(comparison.second)} == {id(arm) for arm in arms}


def _period(jobs: Sequence[LoadedJob]) -> Period | None:
    started = [trial.started_at for job in jobs for trial in job.trials if trial.started_at]
    return Period(min(started)[:19], max(started)[:19]) if started else None


def percent(level: float) -> str:
    """A level as it is printed: `95 %`."""
    return f"{100 * level:g} %"


def arms_table(document: ReportDocument, most: int) -> Table:
    """What each arm amounts to, in the order of the document; at most so many of them."""
    figures = document.figures[:most]
    repeats = max((max(each.pass_at, default=1) for each in figures), default=1)
    costly = any(each.cost_per_solved is not None for each in figures)
    header = ["agent", "mean reward", f"{percent(document.options.level)} interval", "pass rate"]
    header += [f"pass@{repeats}", f"pass^{repeats}"] if repeats > 1 else []
    header += ["scored", "tasks", *(["cost per pass"] if costly else []), "median time"]
    rows = []
    for arm, each in zip(document.arms[:most], figures, strict=True):
        tasks = f"{each.estimate.groups:,}" if each.estimate else "0"
        cells = [arm.label, *estimate_cells(each.estimate), share_words(each.pass_estimate)]
        several = (each.pass_at, each.pass_all) if repeats > 1 else ()
        cells += [share_words(found.get(repeats)) for found in several]
        cells += [f"{each.scored:,} of {each.planned:,}", tasks]
        cells += [format_cost(each.cost_per_solved)] if costly else []
        rows.append((*cells, _median(each)))
    return Table(header, rows)


def share_words(estimate: Estimate | None) -> str:
    """A share with its interval, in percent; a dash for none."""
    if estimate is None:
        return "-"
    share = format_mean(estimate.value, ".1%").replace("%", " %")
    return f"{share} ({format_range(estimate.low, estimate.high, '.1%').removesuffix('%')})"


def _median(figures: Figures) -> str:
    return format_duration(figures.times.median if figures.times else None)


def comparisons_table(document: ReportDocument, most: int) -> Table:
    """How each comparison ended, the second arm against the first: differences in points of a hundred."""
    made = [each for each in document.comparisons if each.comparison.paired][:most]
    level = percent(document.options.level)
    p_value = "p (Holm)" if document.tested > 1 else "p"
    header = ("agent", "against", "difference in points", f"{level} interval", p_value, "tasks", "won", "lost")
    return Table((*header, "detectable"), [_comparison(each) for each in made], names=2)


def _comparison(made: AdjustedComparison) -> Row:
    paired, bounds = made.comparison.paired, made.comparison.interval
    if paired is None or bounds is None:
        return ()
    p_value = paired.p_value if made.adjusted is None else made.adjusted
    return (
        made.comparison.second.label,
        made.comparison.first.label,
        signed(paired.difference),
        " to ".join(map(signed, bounds)),
        p_number(p_value),
        f"{paired.tasks:,}",
        f"{paired.wins:,}",
        f"{paired.losses:,}",
        points(paired.detectable) if paired.detectable <= 1.0 else "-",
    )


def signed(share: float) -> str:
    """A difference in points with its sign: `+4.1`. One that is not 0 does not look like 0."""
    shown = points(share)
    if shown == "0.0" and share:
        return f"{100 * share:+.1g}"
    return shown if shown.startswith("-") or shown == "0.0" else f"+{shown}"


def some(rows: Sequence[object], most: int, noun: str) -> str:
    """What is said below a table that has not everything; empty when it has."""
    return f"{len(rows) - most:,} more {noun} are not shown." if len(rows) > most else ""


# The first sentence of a report: who leads, by how much, and how sure that is.


def headline(document: ReportDocument) -> str:
    """One or two sentences. Names in them are strangers' text."""
    ranked = document.ranked
    if not ranked:
        return "No trial was judged, so there is no mean."
    arm, mean = ranked[0][0], ranked[0][1].estimate
    if len(ranked) == 1 or mean is None:
        tasks = counted(mean.groups if mean else 0, "task")
        return f"{arm.label} has a mean reward of {in_words(mean)} over {tasks}."
    other = ranked[1][0].label
    alone = ranked[1][1].mean is None or ranked[1][1].mean < mean.value
    highest = f"{arm.label} {'has the highest mean' if alone else 'and others have the highest mean'}, {in_words(mean)}"
    if document.lead is None:
        return f"{highest}, but cannot be compared with {other}: a reward does not mean the same for both."
    made = document.lead.comparison
    if made.paired is None or made.interval is None:
        return f"{highest}, but no judged task in common with {other}."
    return _lead((arm.label, other), made, made.paired, made.interval)


def _lead(names: tuple[str, str], made: Comparison, paired: Paired, bounds: tuple[float, float]) -> str:
    """On the tasks of both, the one with the higher mean over all of its own may be behind."""
    leader, other = names
    sign = 1 if made.second.label == leader else -1
    if sign * paired.difference < 0:
        leader, other, sign = other, leader, -sign
    low, high = sorted(sign * each for each in bounds)
    over = f"on {counted(paired.tasks, 'common task')}"
    between = f"{100 * paired.level:g} % interval {bounds_text(low, high)}"
    if paired.difference == 0:
        return f"{leader} and {other} are level {over} ({between} points)."
    p_value = paired.p_value if made.p_value is None else made.p_value
    ahead = points(abs(paired.difference))
    return f"{leader} leads {other} by {ahead} points {over} ({between}, {p_text(p_value)}). {_sure(made, paired)}"


def _sure(comparison: Comparison, paired: Paired) -> str:
    if comparison.verdict in ("better", "worse"):
        return "So large a difference would be rare if both were equally good."
    if comparison.too_few:
        return "So few tasks cannot show a difference, however large."
    if paired.sd == 0 or paired.detectable > 1:
        return "That may be chance."
    found = f"{points(paired.detectable)} points"
    return f"That may be chance: with tasks like these, a difference of {found} is found four times out of five."


def in_words(estimate: Estimate | None) -> str:
    """A mean with its interval: `0.833 (0.601 to 0.952)`, a dash for none."""
    return f"{format_mean(estimate.value)} ({interval(estimate)})" if estimate else "-"
