"""What the outputs of an evaluation amount to, finished or not: values in, values out.

Each mean stands beside what it is a mean of. A rollout that failed, or that nothing judged, is in none of them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from seatrial.env.results import Output
from seatrial.model.record import SCORED_OUTCOMES
from seatrial.stats.attempts import Attempts, estimate_pass_all_k, estimate_pass_at_k
from seatrial.stats.estimates import estimate_mean

PASS_THRESHOLD = 1.0

_TOKENS = ("calls", "input_tokens", "cached_tokens", "output_tokens")


@dataclass(frozen=True, slots=True)
class ErrorCount:
    """Rollouts that failed for the same reason."""

    kind: str
    error: str
    message: str
    rollouts: int


@dataclass(frozen=True, slots=True)
class MetricMean:
    """The mean of a metric over the rollouts that have it."""

    mean: float
    rollouts: int


@dataclass(frozen=True, slots=True)
class EvalFigures:
    """How an evaluation stands. `interval` is that of rewards from 0 to 1; of others there is none.

    `mean_if_failed` counts what has no reward as 0, as other programs do. `pass_at_k` and `pass_all_k` are over the
    examples that have k rollouts with a reward; one passes that reaches `pass_threshold`.
    """

    planned: int
    finished: int
    scored: int
    examples: int
    errors: tuple[ErrorCount, ...]
    invalid: int
    mean: float | None
    interval: tuple[float, float] | None
    mean_if_failed: float | None
    pass_threshold: float
    passed: int
    pass_at_k: Mapping[int, float]
    pass_all_k: Mapping[int, float]
    metrics: Mapping[str, MetricMean]
    usage: Mapping[str, int]
    cost_usd: float | None

    @property
    def failed(self) -> int:
        """How many rollouts came to nothing."""
        return sum(each.rollouts for each in self.errors)


def figures_of(
    outputs: Sequence[Output], planned: int, model: str, pass_threshold: float = PASS_THRESHOLD
) -> EvalFigures:
    """The figures of the outputs there are, of so many that were planned."""
    counted = counted_outputs(outputs)
    rewards = [float(output["reward"]) for output in counted]
    groups = rewards_by_example(counted)
    attempts = [(len(each), sum(reward >= pass_threshold for reward in each)) for each in groups]
    most = max((judged for judged, _ in attempts), default=0)
    return EvalFigures(
        planned=planned,
        finished=len(outputs),
        scored=len(rewards),
        examples=len({str(output.get("example_id")) for output in outputs}),
        errors=_errors(outputs),
        invalid=sum(output.get("outcome") == "verifier_error" for output in outputs),
        mean=fmean(rewards) if rewards else None,
        interval=interval_of(groups),
        mean_if_failed=sum(rewards) / len(outputs) if outputs else None,
        pass_threshold=pass_threshold,
        passed=sum(passed for _, passed in attempts),
        pass_at_k=_over_k(attempts, most, estimate_pass_at_k),
        pass_all_k=_over_k(attempts, most, estimate_pass_all_k),
        metrics=_metrics([output for output in outputs if output.get("error") is None]),
        usage=_usage(outputs),
        cost_usd=_cost(outputs, model),
    )


def counted_outputs(outputs: Sequence[Output]) -> list[Output]:
    """Those with a verdict. A verifier that has none on anything untouched has none for anybody on that task."""
    broken = {output.get("task") for output in outputs if output.get("verifier_broken")}
    judged = (None, *SCORED_OUTCOMES)
    found = [each for each in outputs if each.get("outcome") in judged and each.get("task") not in broken]
    return [each for each in found if each.get("error") is None and isinstance(each.get("reward"), int | float)]


def rewards_by_example(counted: Sequence[Output]) -> list[list[float]]:
    """The rewards of outputs that count, example by example."""
    examples: dict[str, list[float]] = {}
    for output in counted:
        examples.setdefault(str(output.get("example_id")), []).append(float(output["reward"]))
    return [*examples.values()]


def interval_of(groups: Sequence[Sequence[float]]) -> tuple[float, float] | None:
    """How sure a mean of rewards from 0 to 1 is. Rollouts of one example are alike: the examples are independent."""
    rewards = [reward for group in groups for reward in group]
    if not rewards or not all(0.0 <= reward <= 1.0 for reward in rewards):
        return None
    found, mean = estimate_mean(groups), fmean(rewards)
    return (min(found.low, mean), max(found.high, mean)) if found else None


def _over_k(attempts: Sequence[Attempts], most: int, estimate: Any) -> dict[int, float]:
    """For 1, 2, 4 and so on, and for as many as there are at most."""
    ks = sorted(
        {k for k in (2**power for power in range(most.bit_length())) if k <= most} | ({most} if most else set())
    )
    found = {k: estimate(attempts, k) for k in ks}
    return {k: value.value for k, value in found.items() if value is not None}


def _errors(outputs: Sequence[Output]) -> tuple[ErrorCount, ...]:
    counts: Counter[tuple[str, str, str]] = Counter()
    for output in outputs:
        if (error := output.get("error")) is not None:
            table = error if isinstance(error, Mapping) else {"message": str(error)}
            kind, name = str(table.get("kind") or "unknown"), str(table.get("error") or "Error")
            counts[kind, name, str(table.get("message") or "")] += 1
    return tuple(ErrorCount(*what, rollouts) for what, rollouts in counts.most_common())


def _metrics(outputs: Sequence[Output]) -> dict[str, MetricMean]:
    found: dict[str, list[float]] = {}
    for output in outputs:
        for name, value in numbers_in(output.get("metrics")).items():
            found.setdefault(name, []).append(value)
    return {name: MetricMean(fmean(values), len(values)) for name, values in found.items()}


def _usage(outputs: Sequence[Output]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for output in outputs:
        numbers = numbers_in(output.get("usage") or output.get("token_usage"))
        total.update({name: int(numbers.get(name, 0)) for name in _TOKENS})
    return {name: total[name] for name in _TOKENS}


def _cost(outputs: Sequence[Output], model: str) -> float | None:
    """What the tokens cost; None where a price is not known, or depends on the sizes of single requests."""
    from seatrial.gateway.pricing import cost, find_price, load_prices  # noqa: PLC0415 - a table to be read

    price = find_price(model, load_prices().models)
    if price is None:
        return None
    total = 0.0
    for output in outputs:
        used = _usage([output])
        if price.above is not None and used["input_tokens"] > price.above and used["calls"] != 1:
            return None
        total += cost(price, {**used, "cache_write_tokens": 0, "cache_write_1h_tokens": 0})  # type: ignore[typeddict-item]
    return total


def numbers_in(table: object) -> dict[str, float]:
    """What is a number in a table, which hooks may have written what they like to."""
    items = table.items() if isinstance(table, Mapping) else ()
    return {name: value for name, value in items if isinstance(value, int | float)}
