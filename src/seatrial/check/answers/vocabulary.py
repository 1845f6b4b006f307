"""What an instruction and its tests talk about: names of fields, words that may be answers, numbers, and freedoms.

Checks ask here before they call something a finding: nobody means a field that the author leaves to the agent.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*[A-Za-z0-9_]|[A-Za-z0-9_]")
_NUMBER = re.compile(r"(?<![\w.])(?:0[xX][0-9a-fA-F]+|\d[\d,_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)")
_QUOTED = re.compile(r"`\"?([^`\"\n]{1,40})\"?`|\"([^\"\n]{1,40})\"")
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*(?:%|percent|per cent)")
_TOLERANCE = re.compile(r"toleran|within|accura|±|\+/-|margin|deviat|at most|up to", re.IGNORECASE)

# Fields that differ from one honest run to the next, or that are written for people.
_FREE_PARTS = frozenset(
    """
    note notes comment comments description descriptions remark remarks reason reasons reasoning explanation rationale
    justification summary message messages title author timestamp date datetime generated created updated pid port uuid
    guid version duration elapsed runtime seconds host hostname seed assumptions methodology confidence references
    reference source label id
    """.split()  # noqa: SIM905 - words read better as text
)
_FREEDOM = re.compile(
    r"\b(?:any|anything|optional|optionally|arbitrary|freely|free to|not (?:checked|graded|scored|judged)|ignored|"
    r"informational|informative|your choice|if (?:available|known|present)|placeholder for)\b",
    re.IGNORECASE,
)
_EXACT = re.compile(
    r"byte[- ](?:for|by)[- ]byte|byte[- ]identical|bit[- ]for[- ]bit|verbatim|character[- ](?:for|by)[- ]character|"
    r"exact(?:ly)? (?:bytes?|output|contents?|text|string|match|like|identical)|"
    r"exactly (?:this|the following) (?:bytes|output|contents?|text|strings?|lines?)|"
    r"exactly as (?:shown|follows|below|given|described)|exactly match(?:es|ing)?|"
    r"(?:match|matches|identical|equal)(?: to)? exactly|canonical|"
    r"\bmd5\b|\bsha-?(?:1|256|512)\b|checksum|minified|minify|compact json|pretty[- ]?print|\bindent(?:ed|ation)?\b|"
    r"no (?:extra|trailing|leading|other) (?:white ?space|spaces?|newlines?|text|characters?)|"
    r"(?:a|one) single line|one[- ]line\b",
    re.IGNORECASE,
)
_EXACT_FORM = re.compile(r"exact(?:ly)? (?:(?:this|the(?: following| same)?) )?(?:format|formatting)\b", re.IGNORECASE)
_ORDERED = re.compile(
    r"sort(?:ed)? (?:\w+ )?keys|keys (?:\w+ )*(?:sorted|in (?:this|the|alphabetical|exactly))|sort_keys|"
    r"order of (?:the )?(?:keys|fields)|(?:keys|fields) (?:\w+ ){0,4}order|alphabetical(?:ly)?",
    re.IGNORECASE,
)
_LAST_LINE = re.compile(r"new ?line|line (?:break|feed|ending)|\bLF\b|\bCRLF\b|\\n", re.IGNORECASE)


@dataclass(frozen=True)
class Vocabulary:
    """The words of a task: its instruction, and its tests beside it."""

    instruction: str
    tests: Mapping[str, bytes]

    @cached_property
    def _words(self) -> frozenset[str]:
        return frozenset(_WORD.findall(self.instruction))

    @cached_property
    def _test_text(self) -> str:
        return "\n".join(content.decode("utf-8", "replace") for content in self.tests.values())

    @cached_property
    def _test_words(self) -> frozenset[str]:
        return frozenset(_WORD.findall(self._test_text))

    @cached_property
    def _numbers(self) -> frozenset[float]:
        return frozenset(_plain_numbers(self.instruction))

    def names(self, field: str) -> bool:
        """Whether the instruction says the name of a field."""
        return field in self._words or (not _WORD.fullmatch(field) and field in self.instruction)

    def knows(self, word: str) -> bool:
        """Whether a short text is one that the instruction or the tests expect somewhere."""
        if not _WORD.fullmatch(word):
            return len(word) > 2 and (word in self.instruction or word in self._test_text)
        return word in self._words or word in self._test_words

    def says_number(self, value: float) -> bool:
        """Whether the instruction gives this very number."""
        return float(value) in self._numbers

    def others_like(self, word: str) -> tuple[str, ...]:
        """The other words that are quoted in a paragraph with this one, nearest first: its likely alternatives."""
        found: dict[str, None] = {}
        for paragraph in self.instruction.split("\n\n"):
            quoted = [(match.start(), match[1] or match[2]) for match in _QUOTED.finditer(paragraph)]
            place = next((start for start, other in quoted if other == word), None)
            if place is not None:
                nearest = sorted(quoted, key=lambda pair: abs(pair[0] - place))
                found.update((other, None) for _, other in nearest if other != word and _is_like(other, word))
        return tuple(found)

    def leaves_free(self, field: str) -> bool:
        """Whether an author would not mind what a field says: by its name, or by a sentence about it."""
        parts = frozenset(re.split(r"[^a-z0-9]+", _snake(field)))
        if parts & _FREE_PARTS or field.endswith(("_at", "At")):
            return True
        mentions = re.compile(rf"(?<![\w-]){re.escape(field)}(?![\w-])")
        return any(mentions.search(line) and _FREEDOM.search(line) for line in self.instruction.splitlines())

    @cached_property
    def widest_tolerance(self) -> float:
        """The largest share by which the instruction says a value may be off, 0 where it says nothing."""
        lines = [line for line in self.instruction.splitlines() if _TOLERANCE.search(line)]
        return max((float(found) / 100 for line in lines for found in _PERCENT.findall(line)), default=0.0)

    @property
    def exact_bytes(self) -> str | None:
        """The words by which the instruction asks for exact bytes, if it does."""
        return _first(_EXACT, self.instruction)

    @property
    def exact_form(self) -> str | None:
        """The words by which the instruction asks for an exact format, if it does; data may still have other spaces."""
        return _first(_EXACT_FORM, self.instruction)

    @property
    def ordered_keys(self) -> str | None:
        """The words by which the instruction asks for an order of keys, if it does."""
        return _first(_ORDERED, self.instruction)

    @property
    def last_line(self) -> str | None:
        """The words by which the instruction speaks of how lines end, if it does."""
        return _first(_LAST_LINE, self.instruction)


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.search(text)
    return found[0] if found else None


def _plain_numbers(text: str) -> Iterator[float]:
    for found in _NUMBER.findall(text):
        try:
            yield float(int(found, 16)) if found[:2].lower() == "0x" else float(found.replace(",", "").replace("_", ""))
        except (ValueError, OverflowError):
            continue


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _is_like(other: str, word: str) -> bool:
    """Whether a word could stand in another's place: both plain words, written in the same case."""
    return bool(_WORD.fullmatch(other)) and other.isupper() == word.isupper() and "/" not in other and "." not in other
