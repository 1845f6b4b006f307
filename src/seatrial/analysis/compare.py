"""`seatrial.compare`: compares folders, loaded jobs, or agents of them."""

from collections.abc import Sequence
from pathlib import Path

from seatrial.analysis.arms import Arm
from seatrial.analysis.compare_jobs import CompareOptions, ComparisonSet, compare_jobs
from seatrial.analysis.loaded import LoadedJob, load_job
from seatrial.errors import UsageError

Comparable = str | Path | LoadedJob | Arm


def compare(
    a: Comparable,
    b: Comparable | None = None,
    *,
    agent: str | Sequence[str] | None = None,
    level: float = 0.95,
    seed: int = 0,
    force: bool = False,
) -> ComparisonSet:
    """Compare `b` with `a` task by task: agents of the same name, or those that `agent` names; without `b`, the agents
    of one job with the first of them.

    Raises JobError where there is nothing to compare, or where a reward does not mean the same on both sides; with
    `force` it is compared all the same.
    """
    named = (agent,) if isinstance(agent, str) else tuple(agent or ())
    arms = [each for each in (a, b) if isinstance(each, Arm)]
    if arms and (named or len(arms) < 2):
        raise UsageError("an agent of a job is compared with another one: give two of them, and no agent=")
    if len(arms) == 2 and arms[0] is arms[1]:
        raise UsageError(f"{arms[0]!r} is given twice; an agent of a job is compared with another one")
    first, second = _job(a), None if b is None else _job(b)
    if arms:
        named = (arms[0].agent, arms[1].agent)
        second = None if second is first else second
    return compare_jobs(first, second, named, CompareOptions(level=level, seed=seed, force=force))


def _job(given: Comparable) -> LoadedJob:
    if isinstance(given, Arm):
        return given.job
    return given if isinstance(given, LoadedJob) else load_job(given)
