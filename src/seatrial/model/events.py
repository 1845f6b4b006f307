"""Events inform whoever watches work under way, and nothing depends on them.

Which events there are is for each kind of work to say: trials have theirs in `trial/log.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

E = TypeVar("E")

Observer = Callable[[E], None]
"""Is called with each event. One that is slow or broken must not change a result."""


def unobserved(_: object) -> None:
    """The observer that looks away."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something to know that is of no single trial: an image is being pulled, or a task's verifier is broken."""

    text: str
    urgent: bool = False
    """Whether it speaks against results that are being made."""
