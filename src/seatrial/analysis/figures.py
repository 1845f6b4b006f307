"""The figures of an agent, or of any trials together: what a row of a table, a leaderboard or a report says of them."""

import math
import statistics
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from seatrial.analysis.arms import Arm
from seatrial.analysis.notebook import html_table, interval, number
from seatrial.analysis.pool import Pool
from seatrial.analysis.tally import SCORED, Tally
from seatrial.stats.attempts import Attempts, Stability, estimate_pass_all_k, estimate_pass_at_k, stability
from seatrial.stats.corrected import FAILED, CorrectedMean, Possible, corrected_mean, known
from seatrial.stats.estimates import Estimate, estimate_mean
from seatrial.store.index import TrialEntry


@dataclass(frozen=True, slots=True)
class Times:
    """How long trials took, in seconds: half of them at most `median`, nine of ten at most `p90`."""

    median: float
    p90: float
    total: float


@dataclass(frozen=True, slots=True)
class Figures:
    """What trials amount to. `mean` and `pass_rate` are over tasks and scored trials, None where there are none.

    `pass_at` and `pass_all` have an estimate for each k that some task has enough attempts for. `cost_per_solved` is
    the cost of all trials by the number of those that passed; None where one is not known or there are none.
    """

    tally: Tally
    mean: Estimate | None
    pass_rate: Estimate | None
    pass_at: Mapping[int, Estimate]
    pass_all: Mapping[int, Estimate]
    stability: Stability
    times: Times | None
    solved: int
    cost_per_solved: float | None

    def _repr_html_(self) -> str:
        estimates: dict[str, Estimate | None] = {"mean reward": self.mean, "pass rate": self.pass_rate}
        estimates.update({f"pass@{k}": found for k, found in self.pass_at.items()})
        estimates.update({f"pass^{k}": found for k, found in self.pass_all.items()})
        rows = [
            (name, number(each.value), interval(each), f"{each.groups:,}") for name, each in estimates.items() if each
        ]
        return html_table("figures", ("", "value", "interval", "tasks"), rows)


def figures_of(
    arm: Arm | Pool,
    *,
    clusters: Mapping[str, Hashable] | None = None,
    ks: Sequence[int] | None = None,
    level: float = 0.95,
) -> Figures:
    """The figures of an arm or of other trials together.

    `clusters` says which tasks belong together, such as those of one family, and `ks` for which k pass@k is wanted.
    """
    tasks = [*arm.rewards]
    together = _together(tasks, clusters)
    attempts = [arm.attempts[task] for task in tasks]
    solved = sum(passes for _, passes in attempts)
    ks = attempts_asked(attempts) if ks is None else ks
    mean, pass_rate = arm.tally.estimate, arm.tally.pass_estimate
    if together or (mean and mean.level != level):
        passed = [[1.0] * passes + [0.0] * (judged - passes) for judged, passes in attempts]
        mean = estimate_mean([*arm.rewards.values()], together, level)
        pass_rate = estimate_mean(passed, together, level)
    once = {1: pass_rate} if pass_rate and 1 in ks else {}  # the same question, so the same interval
    more = [k for k in ks if k > 1]
    return Figures(
        tally=arm.tally,
        mean=mean,
        pass_rate=pass_rate,
        pass_at=once | {k: found for k in more if (found := estimate_pass_at_k(attempts, k, level, together))},
        pass_all=once | {k: found for k in more if (found := estimate_pass_all_k(attempts, k, level, together))},
        stability=stability(attempts),
        times=times_of(arm.trials),
        solved=solved,
        cost_per_solved=_cost_per_solved(arm.tally, solved),
    )


def mean_of(arm: Arm | Pool, *, clusters: Mapping[str, Hashable] | None = None, level: float = 0.95) -> Estimate | None:
    """The mean over tasks and scored trials, None where there are none."""
    together = _together(arm.rewards, clusters)
    return estimate_mean([*arm.rewards.values()], together, level)


def corrected_of(
    arm: Arm | Pool, *, clusters: Mapping[str, Hashable] | None = None, level: float = 0.95
) -> CorrectedMean | None:
    """The lowest and the highest mean that trials can have, whatever became of those that are disputed or have no
    verdict; None where there is no trial.
    """
    tasks: dict[str, list[Possible]] = defaultdict(list)
    for trial in arm.trials:
        judged = trial.outcome in SCORED and trial.reward is not None
        tasks[trial.task_id].append(known(trial.reward or 0.0, trial.disputed_reward) if judged else FAILED)
    together = _together(tasks, clusters)
    return corrected_mean([*tasks.values()], together, level)


def _together(tasks: Iterable[str], clusters: Mapping[str, Hashable] | None) -> list[Hashable] | None:
    """What belongs together; a task without a cluster is alone, also where a cluster has its name."""
    return [(task in clusters, clusters.get(task, task)) for task in tasks] if clusters else None


def attempts_asked(attempts: Sequence[Attempts]) -> list[int]:
    """For which k pass@k is worth a number: 1, the powers of two, and as many attempts as any task has."""
    most = max((judged for judged, _ in attempts), default=0)
    powers = [2**power for power in range(most.bit_length()) if 2**power <= most]
    return sorted({*powers, most} - {0})


def times_of(trials: Sequence[TrialEntry]) -> Times | None:
    """How long trials took, None where that is not known."""
    seconds = sorted(trial.duration_sec for trial in trials if trial.duration_sec is not None)
    if not seconds:
        return None
    return Times(statistics.median(seconds), seconds[math.ceil(0.9 * len(seconds)) - 1], math.fsum(seconds))


def _cost_per_solved(tally: Tally, solved: int) -> float | None:
    cost = tally.usage.cost_usd if tally.usage else None
    return cost / solved if cost is not None and solved else None
