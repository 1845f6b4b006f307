"""Which agents of two jobs, or of one, are held against each other, and what comes of it.

Comparability comes first: where a reward does not mean the same on both sides there is no comparison, unless it is
forced. Several comparisons at once are corrected after Holm.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from seatrial.analysis.arms import Arm, arms_of
from seatrial.analysis.comparability import Comparability, comparability
from seatrial.analysis.comparison import Comparison, after_holm, compare_arms
from seatrial.analysis.differences import Difference, difference_line, printable
from seatrial.analysis.loaded import LoadedJob
from seatrial.analysis.notebook import PAIR_COLUMNS, html_table
from seatrial.errors import JobError, UsageError
from seatrial.stats.quantiles import SUREST


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """How to compare. With `force`, also what does not mean the same is compared, and everything shown says so.

    With a `unit` of `family`, tasks of one family count as variants of each other, and not as independent tasks.
    """

    level: float = 0.95
    seed: int = 0
    force: bool = False
    unit: Literal["task", "family"] = "task"

    def __post_init__(self) -> None:
        _check_numbers(self.level, self.seed)


def _check_numbers(level: Any, seed: Any) -> None:
    """Programs give these as well as people, and then nobody has looked at them."""
    if not (isinstance(level, int | float) and 0.5 <= level <= SUREST):
        raise UsageError(f"the level is {level!r}, expected a number from 0.5 to {SUREST}, such as 0.95")
    if not (isinstance(seed, int) and seed >= 0):
        raise UsageError(f"the seed is {seed!r}, expected a whole number from 0 on")


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """Two arms, whether they can be compared, and what the comparison says."""

    comparison: Comparison
    comparability: Comparability


@dataclass(frozen=True, slots=True, repr=False)
class ComparisonSet:
    """Comparisons made together. `left_out` are agents that have no counterpart."""

    first: LoadedJob
    second: LoadedJob
    pairs: tuple[ComparedPair, ...]
    options: CompareOptions
    left_out: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<ComparisonSet: {', '.join(map(repr, self.comparisons))}>"

    def _repr_html_(self) -> str:
        rows = [comparison.row for comparison in self.comparisons]
        every = [(each.weight, difference_line(each)) for pair in self.pairs for each in pair.comparability.differences]
        forced = ["Forced: a reward does not mean the same on both sides."] if self.forced else []
        notes = [*forced, *dict.fromkeys(f"{weight}: {line}" for weight, line in every)]
        return html_table("B against A, in points of 100", PAIR_COLUMNS, rows, notes)

    @property
    def comparisons(self) -> list[Comparison]:
        """What the comparisons say."""
        return [pair.comparison for pair in self.pairs]

    @property
    def corrected(self) -> int:
        """How many p-values were corrected together after Holm; 0 where there is only one, or none."""
        return sum(each.adjusted_p is not None for each in self.comparisons)

    @property
    def forced(self) -> list[Difference]:
        """Differences in spite of which this was compared: with any, a reward does not mean the same on both sides."""
        return [each for pair in self.pairs for each in pair.comparability.of("meaning")]


def compare_jobs(
    first: LoadedJob,
    second: LoadedJob | None = None,
    agents: Sequence[str] = (),
    options: CompareOptions | None = None,
) -> ComparisonSet:
    """Compare the agents of two jobs, or those of one.

    Of two jobs, agents of the same name are compared, or those that are named: one of both, or one of each. Within one
    job, all others are compared with the first, or with the first that is named.

    Raises JobError where there is nothing to compare, or where a reward does not mean the same on both sides.
    """
    options = options or CompareOptions()
    chosen, left_out = _across(first, second, agents) if second else (_within(first, agents), [])
    checked = [(one, other, comparability(one, other)) for one, other in chosen]
    if not options.force:
        _refuse([(one, other, found) for one, other, found in checked if not found.comparable])
    families = _families(first, second or first) if options.unit == "family" else None
    made = [compare_arms(one, other, options.level, options.seed, families) for one, other, _ in checked]
    pairs = [ComparedPair(each, found) for each, (_, _, found) in zip(after_holm(made), checked, strict=True)]
    return ComparisonSet(first, second or first, tuple(pairs), options, tuple(left_out))


def _families(*jobs: LoadedJob) -> dict[str, str]:
    return {task: labels.family for job in jobs for task, labels in job.labels.items() if labels.family is not None}


def _within(job: LoadedJob, agents: Sequence[str]) -> list[tuple[Arm, Arm]]:
    arms = {arm.agent: arm for arm in arms_of([job])}
    named = [_named(arms, agent, job) for agent in agents] or [*arms.values()]
    if twice := next((arm for arm in named if named.count(arm) > 1), None):
        raise JobError(f"{job.path}: {printable(twice.agent)} is named twice; nothing differs from itself")
    if len(named) == 1 and agents:
        named += [arm for arm in arms.values() if arm is not named[0]]
    if not named:
        raise JobError(f"{job.path}: no trial is as asked for; `seatrial show {job.path}` lists them")
    if len(named) < 2:
        raise JobError(f"{job.path}: has one agent, {printable(named[0].agent)}; give a second job to compare it with")
    return [(named[0], arm) for arm in named[1:]]


def _across(first: LoadedJob, second: LoadedJob, agents: Sequence[str]) -> tuple[list[tuple[Arm, Arm]], list[str]]:
    if first.path.resolve() == second.path.resolve():
        raise JobError(f"{first.path}: is given twice; to compare two agents of it, give it once")
    if len(agents) > 2:
        raise JobError(f"{len(agents)} agents are named; of two jobs name one that both have, or one of each")
    every = arms_of([first, second])
    one, other = ({arm.agent: arm for arm in every if arm.job is job} for job in (first, second))
    for job, arms in ((first, one), (second, other)):
        if not arms:
            raise JobError(f"{job.path}: no trial is as asked for; `seatrial show {job.path}` lists them")
    if agents:
        chosen = [(_named(one, agents[0], first), _named(other, agents[-1], second))]
    elif len(one) == len(other) == 1:
        chosen = [(next(iter(one.values())), next(iter(other.values())))]
    else:
        chosen = [(arm, other[agent]) for agent, arm in one.items() if agent in other]
    if not chosen:
        raise JobError(
            f"{first.path} and {second.path} have no agent of the same name: {_listed(one)}; {_listed(other)}. "
            "Name an agent of each (in a terminal: --agent A --agent B)"
        )
    used = {arm.label for pair in chosen for arm in pair}
    return chosen, [] if agents else [arm.label for arm in every if arm.label not in used]


def _named(arms: dict[str, Arm], agent: str, job: LoadedJob) -> Arm:
    if agent not in arms:
        raise JobError(f"{job.path}: has no agent {agent!r}; it has {_listed(arms)}")
    return arms[agent]


def _listed(arms: dict[str, Arm]) -> str:
    return ", ".join(map(printable, arms))


def _refuse(pairs: Sequence[tuple[Arm, Arm, Comparability]]) -> None:
    if not pairs:
        return
    lines = [f"  {difference_line(each)}" for _, _, found in pairs for each in found.of("meaning")]
    first, second = (printable(arm.label) for arm in pairs[0][:2])
    imported = any(arm.job.file.imported for arm in pairs[0][:2])
    again = "Import one of them again as" if imported else "Judge one of them again as"
    how = "`seatrial import --reward-range`" if imported else "`seatrial regrade`"
    raise JobError(
        "\n".join(
            (
                f"{first} and {second} cannot be compared: a reward does not mean the same on both sides",
                *dict.fromkeys(lines),
                f"{again} the other ({how}), or compare in spite of that with --force",
            )
        )
    )
