"""How hard a model is to think: the words of all dialects in one row, and the nearest one that a dialect has."""

from typing import Any

from seatrial.gateway.neutral.types import Request

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""From the least to the most."""

_BUDGETS = ((4096, "low"), (16384, "medium"))
_MOST = "high"


def nearest(effort: str, known: tuple[str, ...]) -> str:
    """The word among `known`, which are in order, that is closest to one of EFFORTS; of two, the one for more."""
    wanted = EFFORTS.index(effort)
    return min(known, key=lambda word: (abs(EFFORTS.index(word) - wanted), -EFFORTS.index(word)))


def effort_of(request: Request) -> Any:
    """The effort that a request asks for in a word, or by a number of tokens to think with; None if it says neither."""
    thinking = request.thinking
    if request.effort is not None or thinking is None or thinking.budget is None:
        return request.effort
    return next((word for most, word in _BUDGETS if thinking.budget < most), _MOST)


def is_known(effort: Any) -> bool:
    """Whether it is a word of EFFORTS."""
    return isinstance(effort, str) and effort in EFFORTS
