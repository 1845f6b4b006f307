"""What the outputs of an evaluation amount to: means of what was judged, how sure they are, and what is in none."""

import datetime as dt
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from importlib import metadata as packages
from statistics import fmean
from typing import TYPE_CHECKING, Any

from seatrial.env.eval_figures import counted_outputs, interval_of, numbers_in, rewards_by_example
from seatrial.env.results import Output
from seatrial.stats.attempts import Attempts, pass_all_k, pass_at_k

if TYPE_CHECKING:
    from seatrial.env.environment import Environment
    from seatrial.env.running import RunPlan


def summarize(outputs: Sequence[Output], plan: "RunPlan", environment: "Environment", started: float) -> dict[str, Any]:
    """The mean of the rewards that count, how sure one may be of it, and how many do not."""
    seconds = time.time() - started
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
        **_figures(outputs, len(plan.rows), environment.pass_threshold),
    }


def _figures(outputs: Sequence[Output], planned: int, threshold: float) -> dict[str, Any]:
    counted = counted_outputs(outputs)
    rewards = [output["reward"] for output in counted]
    groups = Counter(output["example_id"] for output in outputs)
    most = max(groups.values(), default=0)
    average = fmean(rewards) if rewards else None
    failed = [output["error"] for output in outputs if output["error"] is not None]
    attempts = _attempts(counted, threshold)
    return {
        "num_examples": len(groups),
        "rollouts_per_example": most,
        "planned": planned,
        "scored": len(rewards),
        "unscored": len(outputs) - len(rewards),
        "invalid": sum(output.get("outcome") == "verifier_error" for output in outputs),
        "errors": len(failed),
        "errors_by_kind": dict(Counter(error["kind"] for error in failed)),
        "avg_error": len(failed) / len(outputs) if outputs else None,
        "avg_reward": average,
        "avg_reward_interval": interval_of(rewards_by_example(counted)),
        "avg_reward_failed_as_zero": sum(rewards) / len(outputs) if outputs else None,
        "avg_metrics": _averages([output for output in outputs if output["error"] is None]),
        "pass_threshold": threshold,
        "pass_at_k": _over_examples(pass_at_k, attempts, most),
        "pass_all_k": _over_examples(pass_all_k, attempts, most),
        "usage": _total_usage(outputs),
        "token_usage": _averages([{"metrics": output.get("token_usage")} for output in outputs]) or None,
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


def _versions(env_id: str) -> dict[str, str | None]:
    """The releases that rollouts were made with; the environment's where it is an installed package."""
    return {"seatrial_version": _release("seatrial"), "env_version": _release(env_id.rpartition("/")[2])}


def _release(name: str) -> str | None:
    try:
        return packages.version(name) if name else None
    except (packages.PackageNotFoundError, ValueError):
        return None


def _attempts(counted: Sequence[Output], threshold: float) -> list[Attempts]:
    """For each example how many of its rollouts were judged, and how many of those passed."""
    examples = rewards_by_example(counted)
    return [(len(rewards), sum(reward >= threshold for reward in rewards)) for rewards in examples]


def _over_examples(
    chance: Callable[[int, int, int], float | None], attempts: Sequence[Attempts], most: int
) -> dict[str, float]:
    """The mean over examples for k = 1, 2, 4 and so on, of those that were judged k times; none for single rollouts."""
    found: dict[str, float] = {}
    k = 1
    while most > 1 and k <= most:
        chances = [each for judged, passed in attempts if (each := chance(judged, passed, k)) is not None]
        if chances:
            found[str(k)] = fmean(chances)
        k *= 2
    return found


def _averages(outputs: Sequence[Output]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for output in outputs:
        for name, value in numbers_in(output["metrics"]).items():
            found.setdefault(name, []).append(value)
    return {name: fmean(values) for name, values in found.items()}


def _total_usage(outputs: Sequence[Output]) -> dict[str, float]:
    total: Counter[str] = Counter()
    for output in outputs:
        total.update(numbers_in(output["usage"]))
    return dict(total)
