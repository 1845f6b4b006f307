"""How an agent in a sandbox gets to its rollout's loop as if that were a model, and what its calls cost."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # an HTTP server and client, and all dialects of models: the first rollout imports them
    from seatrial.env.interception import Interception
    from seatrial.gateway.access import ModelAccess


def readable_prices(prices: str | Path) -> str:
    """The name of a file of prices that can be read. Raises UsageError."""
    from seatrial.gateway.pricing import load_prices  # noqa: PLC0415 - slow to import

    load_prices(Path(prices))
    return str(prices)


def model_access(
    interception: "Interception", translation: Literal["lenient", "strict"], prices: str | None
) -> "ModelAccess":
    """The way of an agent to its rollout's loop."""
    from seatrial.gateway.access import ModelAccess  # noqa: PLC0415 - slow to import
    from seatrial.gateway.pricing import load_prices  # noqa: PLC0415
    from seatrial.gateway.session import SessionOptions  # noqa: PLC0415

    options = SessionOptions(translation=translation)
    return ModelAccess(interception, options, load_prices(Path(prices) if prices else None))
