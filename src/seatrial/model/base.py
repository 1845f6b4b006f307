"""StrictModel, the base of every type; the field types that keep stored JSON exact; names of models, ids of trials.

A value of a StrictModel has passed its validators, however it was made: constructor, JSON, `model_copy`,
`model_construct` or `copy`. That is what lets readers trust a stored record without checking it again.
"""

import datetime as dt
import hashlib
import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field

MAX_JSON_DEPTH = 100
_CONTAINERS = (dict, list)
_SCALARS = (str, int, float)
_MAX_INT_BITS = 4096  # well below the size at which Python refuses to print an integer


class StrictModel(BaseModel):
    """Frozen; unknown fields, NaN and type coercion are refused; dump → load → dump gives the same bytes."""

    model_config = ConfigDict(
        strict=True,
        defer_build=True,
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        str_min_length=0,  # any bound on length makes pydantic refuse text that no encoding can hold
        protected_namespaces=(),
    )

    @classmethod
    def model_construct(cls, _fields_set: set[str] | None = None, **values: Any) -> Self:  # type: ignore[override]
        """Like the constructor: pydantic's unchecked short cut would let an invalid value exist."""
        return cls.model_validate(values)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy whose updates are validated as a whole, cross-field rules included."""
        if not update:
            return super().model_copy(deep=deep)
        current = {name: getattr(self, name) for name in self.model_fields_set}
        return self.model_validate({**current, **update})

    def copy(self, *, update: dict[str, Any] | None = None, deep: bool = False) -> Self:  # type: ignore[override]
        """The old name of `model_copy`, kept only so that it cannot skip validation either."""
        return self.model_copy(update=update, deep=deep)


def new(kind: type[StrictModel]) -> Any:
    """The default of a field: a value of a type whose fields all have defaults, made for each that lacks one.

    Made once, where the field is declared, it would have pydantic build that type while we are imported: the validators
    of all types with such fields are more than a third of an import.
    """

    def show(schema: dict[str, Any]) -> None:
        schema["default"] = kind().model_dump(mode="json")

    return Field(default_factory=kind, json_schema_extra=show)


def check_json_object(value: dict[str, Any]) -> dict[str, Any]:
    """Return `value` if it survives a JSON round trip unchanged; raise ValueError naming what does not."""
    pending: list[tuple[Any, int]] = [(value, 0)]
    while pending:
        container, depth = pending.pop()
        if depth > MAX_JSON_DEPTH:
            raise ValueError(f"nested deeper than {MAX_JSON_DEPTH} levels")
        if isinstance(container, dict):
            _check_keys(container)
            container = container.values()
        for item in container:
            if isinstance(item, _CONTAINERS):
                pending.append((item, depth + 1))
            elif not isinstance(item, str) or not item.isascii():
                _check_scalar(item)
    return value


def _check_keys(table: dict[Any, Any]) -> None:
    for key in table:
        if not isinstance(key, str):
            raise ValueError(f"the key {key!r} is not text")  # noqa: TRY004 - pydantic wants ValueError
        if not key.isascii():
            _check_scalar(key)


def _check_scalar(item: object) -> None:
    if item is None or isinstance(item, bool):
        return
    if isinstance(item, str):
        try:
            item.encode()
        except UnicodeEncodeError:
            raise ValueError("text with an unpaired surrogate, which no encoding can hold") from None
    elif isinstance(item, float):
        if not math.isfinite(item):
            raise ValueError(f"{item} is not a JSON number")
    elif isinstance(item, int):
        if item.bit_length() > _MAX_INT_BITS:
            raise ValueError("an integer of more than 1,200 digits")
    else:
        raise ValueError(f"{type(item).__name__} is not a JSON type")  # noqa: TRY004 - pydantic wants ValueError


def _whole_minutes(when: dt.datetime) -> dt.datetime:
    if when.tzinfo is dt.UTC:
        return when
    offset = when.utcoffset()
    if offset is None or offset % dt.timedelta(minutes=1):
        raise ValueError(f"the offset {offset} has seconds, which stored times cannot hold")
    return when


Timestamp = Annotated[AwareDatetime, AfterValidator(_whole_minutes)]
"""A moment with its offset from UTC, which JSON can hold only in whole minutes."""

JsonObject = Annotated[dict[str, Any], AfterValidator(check_json_object)]
"""A JSON object kept as found: finite numbers, bounded depth, clean Unicode."""

Fraction01 = Annotated[float, Field(ge=0.0, le=1.0)]
"""A reward, share or probability."""

NonNegative = Annotated[float, Field(ge=0.0)]
NonNegativeInt = Annotated[int, Field(ge=0, le=2**63 - 1)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


def to_json(model: BaseModel) -> bytes:
    """The stored form of a model: readable, with a final newline, the same bytes for equal values."""
    return model.model_dump_json(indent=2).encode() + b"\n"


def plain(value: Any, depth: int = 0) -> Any:
    """A TOML value with its dates and times as ISO text, the only types of it that JSON does not have.

    What is nested deeper than a JsonObject may be stays as it is; its validator then says so.
    """
    if depth > MAX_JSON_DEPTH + 1 or isinstance(value, _SCALARS):
        return value
    if isinstance(value, dict):
        return {key: plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item, depth + 1) for item in value]
    return value.isoformat() if isinstance(value, dt.date | dt.time) else value


# Names of models, such as `openai/gpt-5`: whose a model is, and what its provider calls it.

Provider = Literal["anthropic", "google", "openai"]

_PREFIXES: dict[str, Provider] = {"anthropic": "anthropic", "google": "google", "gemini": "google", "openai": "openai"}
_FAMILIES: tuple[tuple[re.Pattern[str], Provider], ...] = (
    (re.compile(r"claude-"), "anthropic"),
    (re.compile(r"gemini-"), "google"),
    (re.compile(r"(?:gpt-|chatgpt-|codex-|o\d)"), "openai"),
)
_UPSTREAM = re.compile(r"(?:^|,)(anthropic|google|openai)(?:,|$)")


def provider_of(model: str) -> Provider | None:
    """Whose model it is, as far as its name says so; None where several may have it."""
    prefix, slash, _ = model.partition("/")
    if slash:
        return _PREFIXES.get(prefix)
    return next((provider for family, provider in _FAMILIES if family.match(model)), None)


def plain_name(model: str) -> str:
    """A model's name without that of its provider before it, as agents expect it."""
    prefix, slash, name = model.partition("/")
    return name if slash and prefix in _PREFIXES and name else model


def name_at(model: str | None, upstream: str | None) -> str | None:
    """What to call a model at an upstream: one that is a provider itself does not know its own name in it."""
    found = _UPSTREAM.search(upstream or "")
    prefix, slash, _ = (model or "").partition("/")
    if model is None or found is None or not slash or _PREFIXES.get(prefix) != found[1]:
        return model
    return plain_name(model)


def without_cache(upstream: str | None) -> str | None:
    """An upstream without the cache before it, if it has one."""
    while upstream is not None and upstream.startswith("cache:"):
        upstream = upstream.partition(",")[2]
    return upstream


# Ids of trials, which are also the names of their folders.

_MAX_TASK, _MAX_AGENT = 120, 40  # with the rest they stay below 200 bytes; a file name may have 255
_PLAIN_TASK = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9._-]{{0,{_MAX_TASK - 1}}}", re.ASCII)
_PLAIN_AGENT = re.compile(rf"[A-Za-z0-9_-]{{1,{_MAX_AGENT}}}", re.ASCII)
_ODD = re.compile(r"[^A-Za-z0-9_-]+", re.ASCII)


def trial_stem(task_id: str, agent: str) -> tuple[str, str]:
    """What stands before and after the attempt in the ids of one agent's trials at one task.

    Names that are not plain are made so, and a hash behind the attempt keeps them apart. It starts with a letter, so
    no plain id, which ends in a number, can look like one with a hash.
    """
    if _PLAIN_TASK.fullmatch(task_id) and _PLAIN_AGENT.fullmatch(agent):
        return f"{task_id}.{agent}.", ""
    task_slug = _ODD.sub("-", task_id)[:_MAX_TASK].strip("-") or "task"
    agent_slug = _ODD.sub("-", agent)[:_MAX_AGENT].strip("-") or "agent"
    names = f"{len(task_id)}:{task_id}{agent}".encode("utf-8", "surrogatepass")
    return f"{task_slug}.{agent_slug}.", f".h{hashlib.sha256(names).hexdigest()[:12]}"


def trial_id(task_id: str, agent: str, attempt: int) -> str:
    """The id of a trial, which is also the name of its folder: `<task>.<agent>.<attempt>`, safe whatever the names."""
    before, after = trial_stem(task_id, agent)
    return f"{before}{attempt}{after}"
