"""The words around a path that tell whether a sentence asks for the file or hands it out."""

import re
from typing import Literal

Cue = Literal["output", "input"]

_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")

_OUTPUT = frozenset(
    """
    write writes written writing save saves saved saving create creates created creating produce produces produced
    producing generate generates generated generating store stores stored storing export exports exported exporting
    emit emits emitted place placed placing put record recorded dump dumped deliver delivered output implement
    implemented implementing build append appended leave copy move rename result results answer
    """.split()  # noqa: SIM905 - words read better as text
)
_INPUT = frozenset(
    """
    read reads reading load loads loaded given provided supplied input inputs found located parse parses parsed
    parsing use uses using run runs running execute executes executing invoke invokes invoking call calls calling
    open from see existing available tool according based
    """.split()  # noqa: SIM905 - words read better as text
)
# "the values in X", "described in X": what stands before a preposition can make X a source.
_SOURCES = frozenset(
    """
    value values data row rows record records column columns entry entries line lines reading readings number
    numbers files listed described defined specified
    """.split()  # noqa: SIM905 - words read better as text
)
_PREPOSITIONS = frozenset({"in", "of", "at"})
_REFUSALS = frozenset({"not", "don't", "never", "without", "cannot"})
_DEMANDS = frozenset({"must", "should", "shall", "will", "containing"})
_STATEMENTS = frozenset(
    """
    contain contains has have hold holds list lists describe describes
    """.split()  # noqa: SIM905 - words read better as text
)


def cue_before(text: str) -> Cue | None:
    """What the words before a path make of it; the nearest one that says anything decides."""
    words = _WORD.findall(text.lower())
    for index in range(len(words) - 1, -1, -1):
        word = words[index]
        if word in _SOURCES and words[index + 1 : index + 2] and words[index + 1] in _PREPOSITIONS:
            return "input"
        if word in _OUTPUT:
            return "input" if _REFUSALS & set(words[max(0, index - 2) : index]) else "output"
        if word in _INPUT or word in _REFUSALS:
            return "input"
    return None


def cue_after(text: str) -> Cue | None:
    """What the words after a path make of it: "must contain …" asks for it, "contains …" hands it out."""
    words = _WORD.findall(text.lower())
    for index, word in enumerate(words):
        follower = words[index + 1] if index + 1 < len(words) else ""
        if (word in _DEMANDS and follower != "not") or (word in ("has", "have", "needs", "need") and follower == "to"):
            return "output"
        if word in _STATEMENTS or (word == "is" and follower in _INPUT):
            return "input"
    return None
