"""Wrong values in place of right ones: far off, of the other sign, a little off, another word."""

import math
import re
from collections.abc import Iterable
from typing import Any

from seatrial.check.answers.vocabulary import Vocabulary

NUMBER_TEXT = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?")
CLOSE, CLOSER = 1.5, 1.2
_SMALL = 20
_MAX_WORD = 60
_MAX_WORDS_IN_A_NAME = 3
_HEX = re.compile(r"[0-9a-f]{16,}|[0-9A-F]{16,}")


def is_number(value: Any) -> bool:
    """Whether a value is a finite number, or a text that is one."""
    number = _number(value)
    return number is not None and math.isfinite(number)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and not NUMBER_TEXT.fullmatch(value.strip()):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def far_off(value: Any) -> Any:
    """A number ten times as large; one near 0 grows by 10, so that no absolute tolerance hides it."""
    number = _number(value) or 0.0
    return _like(value, number * 10 if abs(number) >= 1 else number + 10)


def opposite(value: Any) -> Any | None:
    """The number with the other sign, None for 0."""
    number = _number(value)
    return _like(value, -number) if number else None


def scaled(value: Any, factor: float) -> Any | None:
    """The number some per cent off; None where rounding changes that much, or an absolute tolerance would decide."""
    number = _number(value)
    if number is None or abs(number) < 0.05:
        return None
    wrong, meant = _like(value, number * factor), abs(number) * (factor - 1)
    return wrong if 0.8 * meant <= abs((_number(wrong) or 0.0) - number) <= 1.2 * meant else None


def is_small_count(value: Any) -> bool:
    """Whether a value is a whole number so small that one more is another answer."""
    number = _number(value)
    is_whole = isinstance(value, int) or (isinstance(value, str) and value.strip().isdigit())
    return is_whole and number is not None and 0 < number < _SMALL


def one_more(value: Any) -> Any:
    """The next whole number."""
    return _like(value, (_number(value) or 0.0) + 1)


def _like(value: Any, number: float) -> Any:
    """A number written like another value: whole, with as many decimals, or as text."""
    if isinstance(value, str):
        decimals = len(value.strip().partition(".")[2]) if "e" not in value.lower() else 6
        return f"{number:.{decimals}f}"
    if isinstance(value, int):
        return round(number)
    return float(f"{number:.12g}")


def is_answer_word(value: Any, words: Vocabulary) -> bool:
    """Whether a text is an answer, not prose: short, and known to the instruction or the tests, or a digest."""
    if not isinstance(value, str) or not value.strip() or len(value) > 200:
        return False
    if _HEX.fullmatch(value):
        return True
    is_name = len(value) <= _MAX_WORD and len(value.split()) <= _MAX_WORDS_IN_A_NAME
    return is_name and words.knows(value)


def nonsense(value: str) -> str:
    """A text that is surely not the right one, of the same kind."""
    if _HEX.fullmatch(value):
        turned = value.translate(str.maketrans("0123456789abcdefABCDEF", "fedcba9876543210543210"))
        return turned.upper() if value.isupper() else turned
    return "WRONG_VALUE" if value.isupper() else "wrong_value"


def another_word(value: str, elsewhere: Iterable[Any], quoted: Iterable[str]) -> str | None:
    """Another word that could stand here: one of the same field elsewhere, or one the instruction quotes beside it."""
    others = (other for other in (*elsewhere, *quoted) if isinstance(other, str) and other != value)
    return next(others, None)
