"""What the outputs of an evaluation amount to, finished or not: values in, values out.

Each mean stands beside what it is a mean of. A rollout that failed, or that nothing judged, is in none of them.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from seatrial.env.results import Output
from seatrial.model.record import SCORED_OUTCOMES
from seatrial.stats.attempts import Attempts, pass_all_k, pass_at_k
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

    `mean_failed_as_zero` counts what has no reward as 0, as other programs do. `pass_at_k` and `pass_all_k` are over
    the examples that have k rollouts with a reward, and empty for single rollouts; one passes that reaches
    `pass_threshold`. `usage` is that of all rollouts, `token_usage` that of one on average. `cost_usd` is None where it
    is not known, or no model was named.
    """

    planned: int
    finished: int
    scored: int
    examples: int
    rollouts_per_example: int
    errors: tuple[ErrorCount, ...]
    invalid: int
    mean: float | None
    interval: tuple[float, float] | None
    mean_failed_as_zero: float | None
    pass_threshold: float
    passed: int
    pass_at_k: Mapping[int, float]
    pass_all_k: Mapping[int, float]
    metrics: Mapping[str, MetricMean]
    usage: Mapping[str, int]
    token_usage: Mapping[str, float]
    cost_usd: float | None

    @property
    def failed(self) -> int:
        """How many rollouts came to nothing."""
        return sum(each.rollouts for each in self.errors)


def figures_of(
    outputs: Sequence[Output], planned: int, pass_threshold: float = PASS_THRESHOLD, *, model: str | None = None
) -> EvalFigures:
    """The figures of the outputs there are, of so many that were planned. With a `model`, its price is looked up."""
    groups = _rewards_by_example(_counted(outputs))
    rewards = [reward for group in groups for reward in group]
    attempts = [(len(each), sum(reward >= pass_threshold for reward in each)) for each in groups]
    examples = Counter(str(output.get("example_id")) for output in outputs)
    most = max(examples.values(), default=0)
    return EvalFigures(
        planned=planned,
        finished=len(outputs),
        scored=len(rewards),
        examples=len(examples),
        rollouts_per_example=most,
        errors=_errors(outputs),
        invalid=sum(output.get("outcome") == "verifier_error" for output in outputs),
        mean=fmean(rewards) if rewards else None,
        interval=_interval(groups),
        mean_failed_as_zero=sum(rewards) / len(outputs) if outputs else None,
        pass_threshold=pass_threshold,
        passed=sum(passed for _, passed in attempts),
        pass_at_k=_over_k(attempts, most, pass_at_k),
        pass_all_k=_over_k(attempts, most, pass_all_k),
        metrics=_means(output.get("metrics") for output in outputs if output.get("error") is None),
        usage=_usage(outputs),
        token_usage={name: each.mean for name, each in _means(each.get("token_usage") for each in outputs).items()},
        cost_usd=None if model is None else _cost(outputs, model),
    )


def _counted(outputs: Sequence[Output]) -> list[Output]:
    """Those with a verdict. A verifier that has none on anything untouched has none for anybody on that task."""
    broken = {output.get("task") for output in outputs if output.get("verifier_broken")}
    judged = (None, *SCORED_OUTCOMES)
    found = [each for each in outputs if each.get("outcome") in judged and each.get("task") not in broken]
    return [each for each in found if each.get("error") is None and _is_number(each.get("reward"))]


def _rewards_by_example(counted: Sequence[Output]) -> list[list[float]]:
    """The rewards of outputs that count, example by example."""
    examples: dict[str, list[float]] = {}
    for output in counted:
        examples.setdefault(str(output.get("example_id")), []).append(float(output["reward"]))
    return [*examples.values()]


def _interval(groups: Sequence[Sequence[float]]) -> tuple[float, float] | None:
    """How sure a mean of rewards from 0 to 1 is. Rollouts of one example are alike: the examples are independent."""
    rewards = [reward for group in groups for reward in group]
    if not rewards or not all(0.0 <= reward <= 1.0 for reward in rewards):
        return None
    found, mean = estimate_mean(groups), fmean(rewards)
    return (min(found.low, mean), max(found.high, mean)) if found else None


def _over_k(
    attempts: Sequence[Attempts], most: int, chance: Callable[[int, int, int], float | None]
) -> dict[int, float]:
    """The mean over examples for 1, 2, 4 and so on, and for as many rollouts as an example has at most."""
    ks = sorted({*(2**power for power in range(most.bit_length())), most}) if most > 1 else []
    found = {k: [each for judged, passed in attempts if (each := chance(judged, passed, k)) is not None] for k in ks}
    return {k: fmean(chances) for k, chances in found.items() if chances}


def _errors(outputs: Sequence[Output]) -> tuple[ErrorCount, ...]:
    counts: Counter[tuple[str, str, str]] = Counter()
    for output in outputs:
        if (error := output.get("error")) is not None:
            table = error if isinstance(error, Mapping) else {"message": str(error)}
            kind, name = str(table.get("kind") or "unknown"), str(table.get("error") or "Error")
            counts[kind, name, str(table.get("message") or "")] += 1
    return tuple(ErrorCount(*what, rollouts) for what, rollouts in counts.most_common())


def _means(tables: Iterable[object]) -> dict[str, MetricMean]:
    found: dict[str, list[float]] = {}
    for table in tables:
        for name, value in _numbers(table).items():
            found.setdefault(name, []).append(value)
    return {name: MetricMean(fmean(values), len(values)) for name, values in found.items()}


def _usage(outputs: Sequence[Output]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for output in outputs:
        numbers = _numbers(output.get("usage") or output.get("token_usage"))
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


def _numbers(table: object) -> dict[str, float]:
    """What is a number in a table, which hooks may have written what they like to."""
    items = table.items() if isinstance(table, Mapping) else ()
    return {name: value for name, value in items if _is_number(value)}


def _is_number(value: object) -> bool:
    """Whether there can be a mean of it: not of what is infinite, or larger than any float."""
    try:
        return isinstance(value, int | float) and math.isfinite(value)
    except OverflowError:
        return False
