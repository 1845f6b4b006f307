"""How trials ended, as a small bar: passed, partly, failed, without a verdict, and still to be run."""

from collections.abc import Mapping

import markupsafe

from seatrial.analysis.tally import SCORED
from seatrial.model.record import Outcome
from seatrial.report.pictures.drawing import element
from seatrial.report.text import OUTCOME_WORDS

_WIDTH, _HEIGHT = 200.0, 10.0
_KINDS = ("pass", "partial", "fail", "none")


def outcome_bar(counts: Mapping[Outcome, int], planned: int) -> markupsafe.Markup:
    """The bar of so many planned trials. Its title has the numbers."""
    shares = dict.fromkeys(_KINDS, 0)
    for outcome, count in counts.items():
        shares[_kind(outcome)] += count
    whole = max(planned, sum(shares.values()), 1)
    parts, x = [], 0.0
    for kind, count in shares.items():
        wide = _WIDTH * count / whole
        if count:
            parts.append(element("rect", {"class": f"bar-{kind}", "x": x, "y": 0.0, "width": wide, "height": _HEIGHT}))
        x += wide
    attributes = {"class": "outcomes", "viewBox": "0 0 200 10", "preserveAspectRatio": "none", "role": "img"}
    told = element("title", {}, markupsafe.escape(outcome_words(counts, planned)))
    return markupsafe.Markup(element("svg", attributes, told, *parts))  # noqa: S704 - made of escaped parts


def outcome_words(counts: Mapping[Outcome, int], planned: int) -> str:
    """The same in words."""
    words = [f"{count:,} {OUTCOME_WORDS[outcome]}" for outcome, count in counts.items() if count]
    if (left := planned - sum(counts.values())) > 0:
        words.append(f"{left:,} not run yet")
    return ", ".join(words) or "no trials"


def _kind(outcome: Outcome) -> str:
    if outcome in ("pass", "partial"):
        return outcome
    return "fail" if outcome in SCORED else "none"
