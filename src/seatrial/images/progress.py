"""What can be told while an image comes into the store."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

LayerState = Literal["present", "waiting", "fetching", "unpacking", "ready"]


@dataclass(frozen=True, slots=True)
class LayerProgress:
    """How far a layer is: bytes done of bytes in all, of its archive as it comes; 0 in all when not known."""

    image: str
    layer: str
    state: LayerState
    done: int = 0
    total: int = 0


OnProgress = Callable[[LayerProgress], None]


def say_nothing(_: LayerProgress) -> None:
    """For whoever does not want to know."""
