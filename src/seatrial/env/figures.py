"""What an evaluation amounts to, finished or not: its rollouts as trials, and the metadata made of their figures.

`seatrial.analysis.figures` makes every mean and pass rate, as it does for jobs. Only here are the errors, metrics and
tokens of rollouts counted, and the figures given the names that verifiers has for them.
"""

import datetime as dt
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata as packages
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

from seatrial.env.results import Output
from seatrial.model.outcome import PASS_THRESHOLD, SCORED_OUTCOMES, Outcome, has_passed

if TYPE_CHECKING:
    from seatrial.analysis.figures import Figures
    from seatrial.env.environment import Environment
    from seatrial.env.running import RunPlan
    from seatrial.store.index import TrialEntry

_TOKENS = ("calls", "input_tokens", "cached_tokens", "output_tokens")


class ErrorCount(NamedTuple):
    """Rollouts that failed for the same reason."""

    kind: str
    error: str
    message: str
    rollouts: int


class MetricMean(NamedTuple):
    """The mean of a metric over the rollouts that have it."""

    mean: float
    rollouts: int


@dataclass(frozen=True, slots=True)
class EvalFigures:
    """How an evaluation stands: the figures of its rollouts, and what only rollouts have."""

    figures: "Figures"
    """Over examples, or over tasks where rollouts are trials."""
    examples: int
    rollouts_per_example: int
    pass_threshold: float
    pass_thresholds: Mapping[str, float]
    """Those of the environments of a group, by their names."""
    errors: tuple[ErrorCount, ...]
    metrics: Mapping[str, MetricMean]
    usage: Mapping[str, int]
    """Of all rollouts together."""
    token_usage: Mapping[str, float]
    """Of one rollout on average."""
    cost_usd: float | None
    """None where it is not known, or no model was named."""

    @property
    def failed(self) -> int:
        return sum(each.rollouts for each in self.errors)

    @property
    def rollout_interval(self) -> tuple[float, float] | None:
        """The interval of the mean over rollouts; those of one example are alike, so it is that over examples."""
        found, mean = self.figures.interval, self.figures.trial_mean
        return None if found is None or mean is None else (min(found[0], mean), max(found[1], mean))

    @property
    def rollout_mean_if_failed(self) -> float | None:
        """The mean over rollouts if each without a reward was a 0, as verifiers counts."""
        found = self.figures
        return found.scored * (found.trial_mean or 0.0) / found.finished if found.finished else None

    @property
    def pass_at_k(self) -> dict[int, float]:
        """pass@k, empty for single rollouts."""
        return {k: each.value for k, each in self.figures.pass_at.items()} if self.rollouts_per_example > 1 else {}

    @property
    def pass_all_k(self) -> dict[int, float]:
        return {k: each.value for k, each in self.figures.pass_all.items()} if self.rollouts_per_example > 1 else {}


def evaluation_figures(
    outputs: Sequence[Output],
    planned: int,
    pass_threshold: float = PASS_THRESHOLD,
    pass_thresholds: Mapping[str, float] | None = None,
    *,
    by_task: bool = False,
    model: str | None = None,
) -> EvalFigures:
    """The figures of the outputs there are, of so many that were planned.

    `pass_thresholds` are those of the environments of a group, by the names that outputs have for them. Where rollouts
    are trials of a job they are grouped `by_task`, as that job is; others by example. With a `model`, its price is
    looked up.
    """
    marks = dict(pass_thresholds or {})
    from seatrial.analysis.figures import Trials, as_counted, figures_of  # noqa: PLC0415 - only for what has ended

    examples = Counter(str(output.get("example_id")) for output in outputs)
    group = "task" if by_task else "example_id"
    entries = [
        _entry(number, output, str(output.get(group)), threshold_of(output, pass_threshold, marks))
        for number, output in enumerate(outputs)
    ]
    return EvalFigures(
        figures=figures_of(Trials(as_counted(entries), planned)),
        examples=len(examples),
        rollouts_per_example=max(examples.values(), default=0),
        pass_threshold=pass_threshold,
        pass_thresholds=marks,
        errors=_errors(outputs),
        metrics=_means(output.get("metrics") for output in outputs if output.get("error") is None),
        usage=_usage(outputs),
        token_usage={name: each.mean for name, each in _means(each.get("token_usage") for each in outputs).items()},
        cost_usd=None if model is None else _cost(outputs, model),
    )


def threshold_of(output: Output, usual: float, of_environments: Mapping[str, float]) -> float:
    """From which reward on a rollout has passed: as its environment has it where that is one of a group."""
    info = output.get("info") if of_environments else None
    route = info.get("env_id") if isinstance(info, Mapping) else None
    names = [str(each) for each in (route if isinstance(route, list | tuple) else [route])]
    inner_first = ("/".join(names[:count]) for count in range(len(names), 0, -1))
    return next((of_environments[name] for name in inner_first if name in of_environments), usual)


def outcome_of_output(output: Output, pass_threshold: float) -> Outcome | None:
    """What a rollout amounts to: what its trial says, else what its reward says; None for one that nothing judged."""
    if output.get("outcome"):
        outcome: Outcome = output["outcome"]
        return outcome
    if output.get("error") is not None:
        return "infrastructure_error"
    reward = output.get("reward")
    if not _is_number(reward):
        return None
    return "pass" if has_passed(reward, pass_threshold) else "partial" if reward > 0 else "fail"


def _entry(number: int, output: Output, task: str, pass_threshold: float) -> "TrialEntry":
    """A rollout as a trial. One that nothing judged, or that has an error, has no reward."""
    from seatrial.store.index import TrialEntry  # noqa: PLC0415 - likewise

    outcome, error, reward = outcome_of_output(output, pass_threshold), output.get("error"), output.get("reward")
    judged = error is None and _is_number(reward)
    if not judged and (outcome is None or outcome in SCORED_OUTCOMES):
        outcome = "cancelled" if error is None else "infrastructure_error"
    return TrialEntry(
        trial_id=str(number),
        task_id=task,
        agent="",
        attempt=1,
        outcome=outcome or "cancelled",
        reward=float(output["reward"]) if judged else None,
        tries=1,
        duration_sec=None,
        started_at=None,
        failure=None,
        broken=bool(output.get("verifier_broken")),
    )


def summarize(outputs: Sequence[Output], plan: "RunPlan", environment: "Environment", started: float) -> dict[str, Any]:
    seconds = time.time() - started
    figures = evaluation_figures(
        outputs,
        len(plan.rows),
        environment.pass_threshold,
        environment.pass_thresholds,
        by_task=environment.rollouts_are_trials,
    )
    return {
        "env_id": environment.env_id,
        "env_args": environment.env_args,
        "model": plan.model,
        "base_url": plan.base_url,
        "sampling_args": dict(plan.sampling_args),
        "state_columns": list(plan.state_columns),
        "tools": environment.oai_tools,
        "shuffle": plan.order is not None,
        "shuffle_seed": plan.order,
        "path_to_save": None if plan.save_to is None else str(plan.save_to),
        "version_info": _versions(environment.env_id),
        "date": dt.datetime.fromtimestamp(started, dt.UTC).isoformat(),
        "time": seconds,
        "time_ms": seconds * 1000,
        **named_figures(figures),
    }


def named_figures(found: EvalFigures) -> dict[str, Any]:
    """Figures by the names that verifiers has for them, and ours where it has none.

    `avg_reward` and what begins like it are verifiers' means over rollouts. `mean_reward` and `pass_rate` are those of
    `seatrial show`, over examples or tasks: the rollouts of each are averaged first.
    """
    figures, kinds = found.figures, Counter[str]()
    for each in found.errors:
        kinds[each.kind] += each.rollouts
    return {
        "num_examples": found.examples,
        "rollouts_per_example": found.rollouts_per_example,
        "planned": figures.planned,
        "finished": figures.finished,
        "scored": figures.scored,
        "unscored": figures.finished - figures.scored,
        "invalid": figures.invalid,
        "errors": found.failed,
        "errors_by_kind": dict(kinds),
        "avg_error": found.failed / figures.finished if figures.finished else None,
        "mean_reward": figures.mean,
        "mean_reward_interval": figures.interval,
        "avg_reward": figures.trial_mean,
        "avg_reward_interval": found.rollout_interval,
        "avg_reward_failed_as_zero": found.rollout_mean_if_failed,
        "avg_metrics": {name: each.mean for name, each in found.metrics.items()},
        "pass_threshold": found.pass_threshold,
        **({"pass_thresholds": dict(found.pass_thresholds)} if found.pass_thresholds else {}),
        "passed": figures.solved,
        "pass_rate": figures.pass_rate,
        "pass_at_k": {str(k): chance for k, chance in found.pass_at_k.items()},
        "pass_all_k": {str(k): chance for k, chance in found.pass_all_k.items()},
        "usage": dict(found.usage),
        "token_usage": dict(found.token_usage) or None,
    }


class LateMetadata(Mapping[str, Any]):
    """Metadata that is made when it is first read, for those who are told of every output and rarely look."""

    def __init__(self, make: Callable[[], dict[str, Any]]) -> None:
        self._make = make

    @cached_property
    def _made(self) -> dict[str, Any]:
        return self._make()

    def __getitem__(self, key: str) -> Any:
        return self._made[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


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
    from seatrial.gateway.prices import cost, find_price, load_prices  # noqa: PLC0415 - a table to be read

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


def _is_number(value: object) -> TypeGuard[float]:
    """Whether there can be a mean of it: not of what is infinite, or larger than any float."""
    try:
        return isinstance(value, int | float) and math.isfinite(value)
    except OverflowError:
        return False


def _versions(env_id: str) -> dict[str, str | None]:
    """The releases that rollouts were made with; the environment's where it is an installed package."""
    return {"seatrial_version": _release("seatrial"), "env_version": _release(env_id.rpartition("/")[2])}


def _release(name: str) -> str | None:
    try:
        return packages.version(name) if name else None
    except (packages.PackageNotFoundError, ValueError):
        return None
