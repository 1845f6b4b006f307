"""What may be said about an evaluation besides what it is of: where it is kept, what is tried again, who is told.

Each of these options has one name here. Trainers and scripts that come from verifiers use others for some of them, and
have some that mean nothing here; `docs/environments.md` lists both.
"""

import inspect
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self, TypeVar

from seatrial.env.arguments import arguments_of, refuse_unknown, whole_number
from seatrial.errors import UsageError

USUAL_RETRIES = 2
"""As for jobs: RunOptions.retries."""

F = TypeVar("F", bound=Callable[..., Any])
Callback = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationOptions:
    """`save_to` is a folder that keeps rollouts, and with `resume` those that are there are not run again.

    `retries` is for rollouts that are trials; others are tried again only as `max_retries` says, which goes before.
    `shuffle` puts the rows into the order of `seed`. `on_start(rows, rows_to_run)`, `on_progress(outputs, new_outputs,
    metadata)`, one or several, and `on_log(line)` are called as an evaluation goes on. With `independent_scoring`
    no group of rollouts is waited for, so that functions of a group cannot score.
    """

    state_columns: Sequence[str] | None = ()
    save_to: Path | str | None = None
    resume: bool = False
    retries: int = USUAL_RETRIES
    engine: str = "local"
    address: str | None = None
    shuffle: bool = False
    seed: int | None = None
    on_start: Callback | None = None
    on_progress: Callback | Sequence[Callback] | None = None
    on_log: Callback | None = None
    independent_scoring: bool = False
    max_retries: int | None = None
    shuffle_seed: int | None = None
    save_results: bool = False
    results_path: Path | str | None = None
    push_to_hf_hub: bool = False
    hf_hub_dataset_name: str | None = None
    max_concurrent_generation: int | None = None
    max_concurrent_scoring: int | None = None
    save_every: int = -1
    use_tqdm: bool = True

    def __post_init__(self) -> None:
        if self.resume and self.save_to is None and self.results_path is None:
            raise UsageError("resume=True goes on with what is in a folder: name it by save_to")
        if self.address is not None and self.engine == "local":
            raise UsageError("address is that of a cluster: name its engine too, as in engine='ray'")
        for name in ("retries", "max_retries"):
            value = getattr(self, name)
            if value is not None:
                whole_number(name, value, 0)
        if self.push_to_hf_hub:
            raise UsageError("push_to_hf_hub: nothing is sent to a hub from here; keep the results by save_to=FOLDER")

    @classmethod
    def read(cls, function: Callable[..., Any], given: Mapping[str, Any]) -> Self:
        """The options among the keywords that a function was given. Raises UsageError for any others."""
        names = [each.name for each in fields(cls)]
        unknown = [name for name in given if name not in names]
        refuse_unknown(function.__name__, unknown, [*arguments_of(function), *names])
        return cls(**given)

    @property
    def columns(self) -> tuple[str, ...]:
        """The keys of the state that outputs have too."""
        named = self.state_columns or ()
        return (named,) if isinstance(named, str) else tuple(named)

    @property
    def trial_retries(self) -> int:
        """How often a rollout that is a trial is tried again."""
        return self.retries if self.max_retries is None else self.max_retries

    @property
    def order(self) -> int | None:
        """The seed by which rows are shuffled; None when they are not."""
        given = self.shuffle_seed if self.seed is None else self.seed
        return (given or 0) if self.shuffle else None

    def folder(self, env_id: str, model: str) -> Path | None:
        """Where rollouts are kept: where a path says, or in a new folder below `outputs/evals`; None for nowhere."""
        if (named := self.save_to if self.save_to is not None else self.results_path) is not None:
            return Path(named)
        if not self.save_results:
            return None
        name = f"{env_id or 'environment'}--{model.replace('/', '--')}"
        return Path("outputs", "evals", name, uuid.uuid4().hex[:8])

    @property
    def goes_on(self) -> bool:
        """Whether what is kept already is not run again; of a `results_path` it is so wherever there is something."""
        path = None if self.results_path is None else Path(self.results_path)
        return self.resume or (path is not None and path.is_dir() and any(path.iterdir()))

    @property
    def listeners(self) -> tuple[Callback, ...]:
        """Those who are told of each output."""
        told = self.on_progress
        return () if told is None else (told,) if callable(told) else tuple(told)


def takes_options(function: F) -> F:
    """Have the signature of a function with `**options` name them all."""
    own = inspect.signature(function)
    *named, rest = own.parameters.values()
    options = list(inspect.signature(EvaluationOptions).parameters.values())
    function.__signature__ = own.replace(parameters=[*named, *options, rest])  # type: ignore[attr-defined]
    return function
