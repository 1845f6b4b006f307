"""The metadata of an evaluation: what was run and with what, and the figures of its outputs by verifiers' names."""

import datetime as dt
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from importlib import metadata as packages
from typing import TYPE_CHECKING, Any

from seatrial.env.eval_figures import EvalFigures, figures_of
from seatrial.env.results import Output

if TYPE_CHECKING:
    from seatrial.env.environment import Environment
    from seatrial.env.running import RunPlan


def summarize(outputs: Sequence[Output], plan: "RunPlan", environment: "Environment", started: float) -> dict[str, Any]:
    """What was run, with what, and what came of it so far."""
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
        **named_figures(figures_of(outputs, len(plan.rows), environment.pass_threshold)),
    }


def named_figures(figures: EvalFigures) -> dict[str, Any]:
    """Figures by the names that verifiers has for them, and ours where it has none."""
    kinds: Counter[str] = Counter()
    for each in figures.errors:
        kinds[each.kind] += each.rollouts
    return {
        "num_examples": figures.examples,
        "rollouts_per_example": figures.rollouts_per_example,
        "planned": figures.planned,
        "finished": figures.finished,
        "scored": figures.scored,
        "unscored": figures.finished - figures.scored,
        "invalid": figures.invalid,
        "errors": figures.failed,
        "errors_by_kind": dict(kinds),
        "avg_error": figures.failed / figures.finished if figures.finished else None,
        "avg_reward": figures.mean,
        "avg_reward_interval": figures.interval,
        "avg_reward_failed_as_zero": figures.mean_failed_as_zero,
        "avg_metrics": {name: each.mean for name, each in figures.metrics.items()},
        "pass_threshold": figures.pass_threshold,
        "passed": figures.passed,
        "pass_at_k": {str(k): chance for k, chance in figures.pass_at_k.items()},
        "pass_all_k": {str(k): chance for k, chance in figures.pass_all_k.items()},
        "usage": dict(figures.usage),
        "token_usage": dict(figures.token_usage) or None,
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
