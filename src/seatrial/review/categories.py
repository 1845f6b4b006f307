"""The words in which reviewers say what went wrong: slugs of their own choice, with `/` between the levels."""

import re
from collections import Counter
from collections.abc import Iterable

from seatrial.model.review import ReviewEntry, not_taken_back

_BETWEEN = re.compile(r"(?:[^\w-]|_)+")
_MOST_LETTERS = 100


def category_slug(text: str) -> str:
    """A category as it is stored: `Wrong unit / kN` is `wrong_unit/kn`. Empty where there is no word in it."""
    levels = (_BETWEEN.sub("_", level).strip("_-") for level in text[:_MOST_LETTERS].lower().split("/"))
    return "/".join(filter(None, levels))


def used_categories(entries: Iterable[ReviewEntry]) -> list[str]:
    """The categories of all verdicts that stand, those that are used most first."""
    said = (each.annotation for each in not_taken_back(entries))
    counts = Counter(name for each in said if each for name in dict.fromkeys(each.categories))
    return sorted(counts, key=lambda name: (-counts[name], name))
