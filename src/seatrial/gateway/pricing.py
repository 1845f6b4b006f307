"""What a call cost: a table of prices as data, and its use. A model that is not in the table has no price, not zero."""

import datetime as dt
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated

import tomli
from pydantic import Field, ValidationError

from seatrial.errors import UsageError
from seatrial.model.base import NonNegative, StrictModel
from seatrial.model.trace import TokenUsage

_OURS = Path(__file__).with_name("prices.toml")
_MILLION = 1_000_000

_VERSION = re.compile(r"([-@]\d{4}-\d{2}-\d{2}|[-@]\d{6,8}|-\d{4}|-latest)?(-v\d+)?(:[\w.-]+)?\Z")
"""What may follow the name of a model without making it another one: a date, a version, a variant of its hosting."""


class ModelPrice(StrictModel):
    """USD per million tokens. Cached input costs the same as other input unless told."""

    input: NonNegative
    output: NonNegative
    cached: NonNegative | None = None


class PriceTable(StrictModel):
    """Prices by the name of the model, and the day on which they were noted."""

    noted: dt.date | None = None
    models: Annotated[dict[str, ModelPrice], Field(default_factory=dict)]

    def merged(self, other: "PriceTable") -> "PriceTable":
        """These prices with those of another table before them."""
        return PriceTable(noted=other.noted or self.noted, models={**self.models, **other.models})


def load_prices(path: Path | None = None) -> PriceTable:
    """The prices that come with Seatrial, overridden by those of a file. Raises UsageError if it is not such a file."""
    ours = _shipped()
    return ours if path is None else ours.merged(_read(path))


def price(model: str, usage: TokenUsage, table: PriceTable) -> float | None:
    """The cost of a call in USD, None when the model has no price in the table."""
    found = find_price(model, table.models)
    return None if found is None else cost(found, usage.input_tokens, usage.cached_tokens, usage.output_tokens)


def cost(found: ModelPrice, input_tokens: int, cached_tokens: int, output_tokens: int) -> float:
    """What so many tokens cost in USD at this price."""
    cached = min(cached_tokens, input_tokens)
    cached_price = found.input if found.cached is None else found.cached
    total = (input_tokens - cached) * found.input + cached * cached_price + output_tokens * found.output
    return total / _MILLION


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
    return _read(_OURS)


def _read(path: Path) -> PriceTable:
    try:
        values = tomli.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise UsageError(f"the prices in {path} cannot be read: {error}") from error
    try:
        return PriceTable.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(f"{path}: {where}: {first['msg']}") from error
