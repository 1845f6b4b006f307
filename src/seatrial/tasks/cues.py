"""The words around a path that tell whether a sentence asks for the file or hands it out."""

import re
from typing import Literal

from seatrial.model.output import FORMAT_BY_SUFFIX

Cue = Literal["output", "input"]
Writer = Literal["reader", "program"]

_ENDINGS = """
    py sh bash js mjs cjs ts c cc cpp h hpp rs go java rb pl php r jl lua sql jpg jpeg gif svg wav mp3 mp4 srt vtt
    npy npz pkl parquet db tar gz cfg conf ini patch
    """
_SUFFIXES = "|".join(sorted([*_ENDINGS.split(), *(suffix[1:] for suffix in FORMAT_BY_SUFFIX)], key=len, reverse=True))
# Atomic, so that no part of a longer name or of an address is taken for one.
FILE_NAME = rf"(?<![\w/.~$<>{{}}*@%+=-])(?:\./)?(?>[\w-][\w.-]*+/)*(?>[\w-]+\.)+(?i:{_SUFFIXES})(?![\w/<{{$*@-]|\.\w)"
"""The name of a file that does not say whole where it is, with an ending that files have."""

# A path counts as one word, "/": what its folders are called says nothing about the sentence.
# The slash comes before the look behind it: a pattern that starts with plain characters is found much faster.
_WORD = re.compile(rf"/(?<![\w.~]/)[\w.@%+~=/-]+|{FILE_NAME}|[a-z]+(?:'[a-z]+)?")
_KEEP = re.compile(
    r"[`'\")*]*(?:(?:,|\s+and|\s+or)\s+(?:and\s+)?[`'\"(*]*[\w/.-]+[`'\")*]*){0,5}"
    r"\s+(?:unchanged|untouched|intact|alone|as\s+(?:it\s+is|they\s+are))\b"
)

_OUTPUT = frozenset(
    """
    write writes written writing save saves saved saving create creates created creating produce produces produced
    producing generate generates generated generating store stores stored storing export exports exported exporting
    emit emits emitted place placed placing put record recorded dump dumped deliver delivered deliverable output outputs
    implement implemented implementing build append appended leave copy move rename result results answer
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
    numbers files listed described defined specified shown documented explained outlined
    """.split()  # noqa: SIM905 - words read better as text
)
# What a program does by itself, where people are told to do it in other forms.
_MAKES = frozenset(
    """
    writes saves creates produces generates stores exports emits places puts records dumps outputs prints appends
    """.split()  # noqa: SIM905 - words read better as text
)
_ORDERS = frozenset(
    """
    write save create produce generate store export emit put dump deliver implement build append leave copy move rename
    """.split()  # noqa: SIM905 - words read better as text
)
_EDITS = frozenset({"edit", "modify", "touch", "change", "delete", "remove", "alter", "overwrite", "replace", "update"})
_BREAKS = frozenset({"but", "instead", "then", "except", "unless", "so", "because"})
_EXCEPTIONS = (["except"], ["except", "for"], ["other", "than"], ["besides"], ["apart", "from"])
_PREPOSITIONS = frozenset({"in", "of", "at"})
_REFUSALS = frozenset({"not", "don't", "never", "without", "cannot"})
_DEMANDS = frozenset({"must", "should", "shall", "will", "containing"})
_STATEMENTS = frozenset(
    """
    contain contains has have hold holds list lists describe describes
    """.split()  # noqa: SIM905 - words read better as text
)


# "from A to B", "the rows of A in B": what stands before a second path can make it the target.
_TARGETS = frozenset({"to", "into", "in", "as", "at", "onto"})
_COMPARED = frozenset({"next", "similar", "identical", "equal", "close", "relative", "compared", "same"})
_NEAR = 5  # words from a program to what it does: "solve.py, a small script that"
_JOINTS = frozenset({"and", "or", "nor", "to", "then", "both", "also"})
_PAST = frozenset({"was", "were", "been", "had"})
_TELLING = _OUTPUT | _INPUT | _SOURCES | _REFUSALS | {"/"}
_TELLING_AFTER = _DEMANDS | _STATEMENTS | {"has", "have", "needs", "need", "is"}


def says_to_keep(after: str) -> bool:
    """Whether the words right after a path say that it stays as it is."""
    return bool(_KEEP.match(after.lower()))


def cue_before(text: str) -> Cue | None:
    """What the words before a path make of it; the nearest one that says anything decides."""
    words = _words(text)
    if cue := _at_the_end(words):
        return cue
    target = False
    for index in range(len(words) - 1, -1, -1):
        word = words[index]
        if word not in _TELLING:
            continue
        if word == "/":
            between = words[index + 1 :]
            target = target or _is_target(between)
            if not target and not set(between) <= _JOINTS | {"/"}:
                return None
            continue
        if _is_optional(words, index):
            return None
        cue = _cue(words, index)
        if cue == "output" or (cue and not target) or (cue and word in _OUTPUT):
            return cue
    return None


def _at_the_end(words: list[str]) -> Cue | None:
    """What the last words alone make of a path: it is an agent, or what a refusal leaves out."""
    if words[-1:] == ["by"]:
        return "input"
    left_out = any(words[-len(each) :] == each for each in _EXCEPTIONS) and _REFUSALS & set(words)
    return "output" if left_out else None


def _words(text: str) -> list[str]:
    return ["/" if "/" in word or "." in word else word for word in _tokens(text)]


def _tokens(text: str) -> list[str]:
    found: list[str] = _WORD.findall(text.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'"))
    return found


def writer_of(before: str, lead: str) -> Writer | None:
    """Who writes a file, by the words before its path and what leads up to them.

    "Write solve.py that reads X and, when it is run, writes …": nothing of that is there before somebody runs it, so
    what the sentence really asks for is the program.
    """
    tokens = _tokens(f"{lead} {before}")
    telling = [index for index, word in enumerate(tokens) if word in _MAKES or word in _ORDERS]
    if not telling:
        return None
    if tokens[telling[-1]] in _ORDERS:
        return "reader" if cue_before(before) == "output" else None
    pronouns = [index for index in range(telling[-1]) if tokens[index] in ("that", "which")]
    programs = [index for index in range(*pronouns[-1:]) if _is_program(tokens[index])] if pronouns else []
    if not programs or pronouns[-1] - programs[-1] > _NEAR:
        return None
    return "program" if cue_before(" ".join(tokens[: programs[-1]])) == "output" else None


def _is_program(word: str) -> bool:
    """Whether it names a file, and none of data."""
    return ("/" in word or "." in word) and f".{word.rpartition('.')[2]}" not in FORMAT_BY_SUFFIX


def _is_target(between: list[str]) -> bool:
    return bool(between) and between[-1] in _TARGETS and not _COMPARED & set(between[-3:-1])


def _cue(words: list[str], index: int) -> Cue | None:
    word = words[index]
    follower = words[index + 1] if index + 1 < len(words) else ""
    if word in _SOURCES and follower in _PREPOSITIONS:
        return "input"
    if word in _OUTPUT:
        return "input" if _refused(words, index) or _past(words, index) else "output"
    return "input" if word in _INPUT or word in _REFUSALS else None


def _is_optional(words: list[str], index: int) -> bool:
    """Whether somebody may also write something, and need not."""
    return words[index] in _OUTPUT and "may" in words[max(0, index - 2) : index]


def _refused(words: list[str], index: int) -> bool:
    """Whether a verb is refused, alone or in a row such as "do not move or rename", or a noun by the verb before it."""
    if _in_refused_row(words, index) or words[index] in _ORDERS:
        return _in_refused_row(words, index)
    for before in range(index - 1, -1, -1):
        if words[before] in _BREAKS:
            return False
        if words[before] in _ORDERS or words[before] in _EDITS:
            return _in_refused_row(words, before)
    return False


def _in_refused_row(words: list[str], index: int) -> bool:
    first = index
    while first and (words[first - 1] in _OUTPUT or words[first - 1] in _EDITS or words[first - 1] in ("or", "nor")):
        first -= 1
    return bool(_REFUSALS & set(words[max(0, min(first, index) - 1) : index]))


def _past(words: list[str], index: int) -> bool:
    return index > 0 and words[index - 1] in _PAST


def cue_after(text: str) -> Cue | None:
    """What the words after a path make of it: "must contain …" asks for it, "contains …" hands it out."""
    words = _words(text)
    for index, word in enumerate(words):
        if word not in _TELLING_AFTER:
            continue
        follower = words[index + 1] if index + 1 < len(words) else ""
        if word in _DEMANDS and follower == "not":
            return "input"
        if word in _DEMANDS or (word in ("has", "have", "needs", "need") and follower == "to"):
            return "output"
        if word in _STATEMENTS or (word == "is" and follower in _INPUT):
            return "input"
    return None
