"""What a call cost: a table of prices as data, and its use. A model that is not in the table has no price, not zero."""

import datetime as dt
import re
from collections.abc import Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Self, cast

import tomli
from pydantic import Field, ValidationError, model_validator

from seatrial.errors import UsageError
from seatrial.gateway.base import TokenCounts
from seatrial.model.base import NonNegative, NonNegativeInt, StrictModel
from seatrial.model.trace import TokenUsage
from seatrial.untrusted.json import first_fault

_OURS = Path(__file__).with_name("prices.toml")
_MILLION = 1_000_000

_VERSION = re.compile(r"([-@]\d{4}-\d{2}-\d{2}|[-@]\d{6,8}|-\d{4}|-latest)?(-v\d+)?(:[\w.-]+)?\Z")
"""What may follow the name of a model without making it another one: a date, a version, a variant of its hosting."""


class ModelPrice(StrictModel):
    """USD per million tokens. What comes from a cache or goes to it costs the same as other input unless told.

    A request with more than `above` input tokens costs what `long` says, all of it.
    """

    input: NonNegative
    output: NonNegative
    cached: NonNegative | None = None
    cache_write: NonNegative | None = None
    cache_write_1h: NonNegative | None = None
    above: NonNegativeInt | None = None
    long: "ModelPrice | None" = None

    @cached_property
    def dearest(self) -> tuple[float, float]:
        """The most that an input token and an output token can cost, whatever the provider does with them."""
        read, written = max(self.input, *_write_prices(self)), self.output
        if self.long is None:
            return read, written
        return max(read, self.long.dearest[0]), max(written, self.long.dearest[1])

    @model_validator(mode="after")
    def _check_long(self) -> Self:
        if (self.above is None) != (self.long is None):
            raise ValueError("`above` and `long` go together: how many input tokens, and what more of them cost")
        return self


class PriceTable(StrictModel):
    """Prices by the name of the model, and the day on which they were noted."""

    noted: dt.date | None = None
    models: Annotated[dict[str, ModelPrice], Field(default_factory=dict)]
    label: str = ""
    """Where they are from and of which day, for those who read a cost."""

    def merged(self, other: "PriceTable") -> "PriceTable":
        """These prices with those of another table before them."""
        label = ", ".join(filter(None, (other.label, self.label)))
        return PriceTable(noted=other.noted or self.noted, models={**self.models, **other.models}, label=label)


def load_prices(path: Path | None = None) -> PriceTable:
    """The prices that come with Seatrial, overridden by those of a file. Raises UsageError if it is not such a file."""
    ours = _shipped()
    return ours if path is None else ours.merged(_read(path, path.name))


def price(model: str, usage: TokenUsage, table: PriceTable) -> float | None:
    """The cost of a call in USD, None when the model has no price in the table."""
    found = find_price(model, table.models)
    return None if found is None else cost(found, cast(TokenCounts, usage.model_dump()))


def cost(found: ModelPrice, counts: TokenCounts) -> float:
    read = counts["input_tokens"]
    if found.long is not None and read > (found.above or 0):
        found = found.long
    cached = min(counts["cached_tokens"], read)
    stored = min(counts.get("cache_write_tokens", 0), read - cached)
    total = (read - cached - stored) * found.input + counts["output_tokens"] * found.output
    total += cached * (found.input if found.cached is None else found.cached)
    if stored:
        stored_1h = min(counts.get("cache_write_1h_tokens", 0), stored)
        write, write_1h = _write_prices(found)
        total += (stored - stored_1h) * write + stored_1h * write_1h
    return total / _MILLION


def _write_prices(found: ModelPrice) -> tuple[float, float]:
    write = found.input if found.cache_write is None else found.cache_write
    return write, write if found.cache_write_1h is None else found.cache_write_1h


def find_price(model: str, prices: Mapping[str, ModelPrice]) -> ModelPrice | None:
    """The price under the longest name that the model's begins with, followed by nothing but a date or version.

    A name before a slash (`openai/gpt-5`) is of who passes the model on, and counts only if nothing matches with it.
    """
    known = (name for name in prices if model.startswith(name) and _VERSION.match(model, len(name)))
    best = max(known, key=len, default=None)
    if best is not None:
        return prices[best]
    _, slash, rest = model.partition("/")
    return find_price(rest, prices) if slash else None


@cache
def _shipped() -> PriceTable:
    return _read(_OURS, "Seatrial")


def _read(path: Path, name: str) -> PriceTable:
    try:
        values = tomli.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise UsageError(f"the prices in {path} cannot be read: {error}") from error
    try:
        table = PriceTable.model_validate(values)
    except ValidationError as error:
        raise UsageError(f"{path}: {first_fault(error)}") from error
    return table.model_copy(update={"label": f"{name} {table.noted}" if table.noted else name})
