"""Keyword arguments: those that are passed on, those that nothing takes, and the options of an evaluation.

For an unknown one it finds the one that was probably meant.
"""

import inspect
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Any, Self, TypeVar, cast

from seatrial.errors import UsageError
from seatrial.model.arguments import as_names, as_path, refuse_unknown, whole_number

F = TypeVar("F", bound=Callable[..., Any])

NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def constructor_arguments(kind: type) -> list[str]:
    """Every keyword that a class or one of its bases takes when it is made."""
    inits = [vars(each)["__init__"] for each in kind.__mro__ if "__init__" in vars(each) and each is not object]
    return [name for init in inits for name in arguments_of(init)]


def arguments_of(function: Callable[..., Any]) -> list[str]:
    parameters: Mapping[str, inspect.Parameter] = inspect.signature(function).parameters
    return [name for name, each in parameters.items() if each.kind in NAMED and name != "self"]


def passes_on(taker: Callable[..., Any]) -> Callable[[F], F]:
    """Let a function that passes its `**kwargs` on have the arguments of `taker` behind its own, in that order.

    They are in its signature, and all of those that may be given by position there may be so here.
    """

    def extend(function: F) -> F:
        own = inspect.signature(function)
        *named, rest = own.parameters.values()
        more = [each for name, each in inspect.signature(taker).parameters.items() if name not in own.parameters]
        # `sorted` keeps the order within a kind; those that are given by name only come last.
        signature = own.replace(parameters=[*sorted([*named, *more], key=lambda each: each.kind), rest])

        @wraps(function)
        def extended(*args: Any, **kwargs: Any) -> Any:
            given = signature.bind(*args, **kwargs).arguments
            others = given.pop(rest.name, {})
            return function(**given, **others)

        extended.__signature__ = signature  # type: ignore[attr-defined]
        return cast("F", extended)

    return extend


# Options of an evaluation. Those of verifiers that have another name here, or mean nothing: docs/environments.md.

USUAL_RETRIES = 2
"""As for jobs: RunOptions.retries."""
Callback = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationOptions:
    """The options of an evaluation under their names here, and under those of verifiers."""

    state_columns: Sequence[str] | None = ()
    """Keys of the state that outputs have too."""
    save_to: Path | str | None = None
    """A folder that keeps rollouts."""
    resume: bool = False
    """Whether those that are there already are not run again."""
    retries: int = USUAL_RETRIES
    """How often rollouts that are trials are tried again; `max_retries` goes before."""
    engine: str = "local"
    address: str | None = None
    shuffle: bool = False
    """Whether the rows are put into the order of `seed`."""
    seed: int | None = None
    on_start: Callback | None = None
    """Called with the rows, and the rows to run."""
    on_progress: Callback | Sequence[Callback] | None = None
    """One or several, called with all outputs so far, the new ones, and the metadata."""
    on_log: Callback | None = None
    """Called with a line."""
    independent_scoring: bool = False
    """Whether no group of rollouts is waited for, so that functions of a group cannot score."""
    max_retries: int | None = None
    """How often any rollouts are tried again."""
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
        for name, least in (("retries", 0), ("max_retries", 0), ("seed", None), ("shuffle_seed", None)):
            value = getattr(self, name)
            if value is not None:
                whole_number(name, value, least)
        for name in ("save_to", "results_path"):
            as_path(name, getattr(self, name) or ".")
        as_names("state_columns", self.state_columns or ())
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
        return as_names("state_columns", self.state_columns or ())

    @property
    def trial_retries(self) -> int:
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
        told = self.on_progress
        return () if told is None else (told,) if callable(told) else tuple(told)


def takes_options(function: F) -> F:
    """Have the signature of a function with `**options` name them all."""
    own = inspect.signature(function)
    *named, rest = own.parameters.values()
    options = list(inspect.signature(EvaluationOptions).parameters.values())
    function.__signature__ = own.replace(parameters=[*named, *options, rest])  # type: ignore[attr-defined]
    return function
