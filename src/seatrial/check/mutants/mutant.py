"""A mutant: an accepted answer with one thing wrong, and what it would mean if it were accepted too."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal

MutantKind = Literal[
    "far", "other", "opposite", "close", "closer", "missing", "nan", "text", "one-far", "row-missing", "row-twice",
    "row-order", "swapped", "does-nothing", "always-true", "always-false", "slip",
]  # fmt: skip
"""What was done. Of a field: a value far off, another value of its kind, the other sign, 50 or 20 % off, gone, not a
number, a text for a number, far off in one row only. Of a list: a row gone, twice, all in another order. Two fields
swapped. Of code: a function that does nothing or always says the same, a slip such as a number that is one off."""

FIELD_KINDS: frozenset[MutantKind] = frozenset({"far", "other", "opposite"})
"""The kinds after which no part of the right value is left."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One wrong answer. `field` is what is wrong in general, `subject` the very place, both as an author names them.

    `change` tells what was done, as in "`utilisation` is 11.98 instead of 1.198". With `named`, the instruction speaks
    of the field. `label` says which of several mutants of a kind it is.
    """

    kind: MutantKind
    field: str
    subject: str
    change: str
    content: bytes
    named: bool = True
    label: str = ""


def bounded(rounds: Iterable[Iterable[Mutant]], original: bytes, limit: int) -> Iterator[Mutant]:
    """Mutants that differ from the original and from each other, those of earlier rounds first, at most `limit`."""
    seen = {original}

    def fresh() -> Iterator[Mutant]:
        for mutants in rounds:
            for mutant in mutants:
                if mutant.content not in seen:
                    seen.add(mutant.content)
                    yield mutant

    return islice(fresh(), limit)
