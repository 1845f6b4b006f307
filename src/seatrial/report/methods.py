"""The methods paragraph of a report: what exactly was computed, in sentences made from the values it was computed with.

Names in it are strangers' text: what writes the sentences into a page or a file has to escape them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from seatrial.analysis.arms import Arm
from seatrial.analysis.comparison import Comparison
from seatrial.analysis.loaded import LoadedJob
from seatrial.analysis.tally import Tally
from seatrial.model.imported import ImportedJob
from seatrial.report.text import counted
from seatrial.stats.paired import EXACT_UP_TO

_NAMED = 5
"""How many things a sentence names before it counts the rest."""

_UNIT = (
    "The unit of analysis is the task: the rewards of a task's scored trials are averaged first,"
    " and a mean is over tasks."
)
INTERVAL = "Student's t with two tasks more at each end of the range, after Agresti and Coull"
DIFFERENCE_INTERVAL = "Student's t with one task and a half more that is won, and as much that is lost"
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
    "The interval of a mean difference is made in the same way, with one task and a half more at which the one is"
    " better by 1, and as much at which the other is."
)
_FAMILIES = "Tasks of one family count as one cluster in the intervals of mean rewards, pass rates, pass@k and pass^k."
_BY_FAMILY = "In comparisons, too, tasks of one family count as one cluster, and their signs flip together."
_DETECTABLE = (
    "The detectable difference is the one that a two-sided test at {error} and the interval would both find four times"
    " out of five with as many tasks that differ as much."
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
    tally = [arm.tally for arm in arms]
    planned, finished, scored = (
        sum(getattr(each, name) for each in tally) for name in ("planned", "finished", "scored")
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
    shown = " or ".join(f"{threshold:g}" for threshold in thresholds)
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
    lines = [_PAIRS, _DIFFERENCE, _test(made, computed.seed)]
    if computed.by_family:
        families = all(comparison.families is not None for comparison in made)
        lines.append(_BY_FAMILY if families else "Comparisons take every task by itself, also those of one family.")
    if computed.adjusted:
        lines.append(f"p-values are adjusted after Holm for {counted(computed.adjusted, 'comparison')}.")
    lines.append(_DETECTABLE.format(error=_percent(round(1 - computed.level, 6))))
    if computed.forced:
        lines.append(f"The comparison was forced although {_listed(computed.forced)}.")
    return lines


def _test(made: Sequence[Comparison], seed: int) -> str:
    drawn = {each.paired.draws for each in made if each.paired}
    units = "tasks" if all(each.families is None for each in made) else "families"
    parts = []
    if 0 in drawn:
        parts.append(f"exact up to {EXACT_UP_TO} {units} with a difference")
    if times := " or ".join(f"{count:,}" for count in sorted(drawn - {0})):
        parts.append(f"drawn {times} times with the seed {seed} for more than {EXACT_UP_TO} {units} with a difference")
    return f"p-values are two-sided, of a test that flips the signs of the differences: {', '.join(parts)}."


def _without_verdict(arms: Sequence[Arm]) -> list[str]:
    tallies = [arm.tally for arm in arms]
    parts = [
        ("could not be run", sum(tally.infrastructure for tally in tallies)),
        ("the verifier could not judge", sum(tally.invalid for tally in tallies)),
        ("cancelled", sum(tally.counts.get("cancelled", 0) for tally in tallies)),
        ("not run", sum(tally.open for tally in tallies)),
    ]
    said = [f"{count:,} ({what})" for what, count in parts if count]
    if not said:
        return ["Every planned trial was scored."]
    means = [
        f"{arm.label} {tally.mean_if_failed:.3f}" for arm in arms if (tally := arm.tally).mean_if_failed is not None
    ]
    lines = [f"Trials without a verdict are in no mean, and none of them counts as 0: {_listed(said)}."]
    if any(tally.infrastructure or tally.invalid or tally.counts.get("cancelled", 0) for tally in tallies) and means:
        lines.append(f"If those with a record had failed, the means would be: {_listed(means)}.")
    return lines


def _doubtful(arms: Sequence[Arm]) -> list[str]:
    lines = []
    tallies: list[Tally] = [arm.tally for arm in arms]
    if disputed := sum(tally.disputed for tally in tallies):
        lines.append(f"{counted(disputed, 'verdict is', 'verdicts are')} disputed; the lower reward counts.")
    if regraded := sum(tally.regraded for tally in tallies):
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
