"""What an instruction says about files: which paths it names, and whether it asks for them or hands them out.

Every mention is judged by its own sentence: the nearest cue before the path decides, else the first one after it.
Paths inside command lines do not count: they are somebody's example, not a request. A name such as result.json counts
where its sentence asks for the file and says in which folder, as does ./result.json, which is in the working directory.
"""

import posixpath
import re
from bisect import bisect
from collections.abc import Container, Generator, Iterator
from functools import lru_cache
from itertools import islice, pairwise
from typing import Literal

from seatrial.model.output import FORMAT_BY_SUFFIX, PathCandidate
from seatrial.verifier_kit import fenced_blocks

# Cues: the words around a path that tell whether a sentence asks for the file or hands it out.

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


# Mentions: the paths of an instruction, each with what its sentence makes of it.

Role = Literal["output", "mentioned", "input"]

_CANARY = re.compile(r"\s*(#|//|<!--).*canary", re.IGNORECASE)
_FENCES = ("```", "~~~")
_ITEMS = re.compile(r"\n(?=\s*(?:[-+|#>]|\*(?!\*)|\d+[.)]\s))")
_ITEM = re.compile(r"\s*(?:[-+|#>]+|\*(?!\*)|\d+[.)])\s+")
_SENTENCES = re.compile(r"[.!?;]\s+(?=[^a-z])")
_CODE = re.compile(r"`[^`]*`")
_PLACED = re.compile(
    r"\b(?<!relative )(?:in|into|inside|within|under|below|at|to)\s+(?:(?:the|your|this|a|working|work|current|output|"
    r"project|root|directory|folder|dir|workspace|called|named)\s+)*[`'\"(*]*$",
    re.IGNORECASE,
)
_MARKS = " `'\"*(["
_BASE_NAME = re.compile(r"/(?<![\w.~-]/)(?>(?:[\w-][\w.-]*+/)*)([\w-]+(?:\.[\w-]+)+)")  # of a whole path
_PLACEHOLDER = re.compile(r"(?<![A-Za-z])(?:X{2,}|N{2,}|Y{4})(?![A-Za-z])")  # part_XX.csv
_MOST_MENTIONS = 5000  # an author names a hundred, a stranger may fill 4 MiB
_CONTEXT = 400  # what is further away from a path than this says nothing about it


def strip_canary(text: str) -> str:
    """The instruction as the agent may see it: without the leading comment lines that hold a canary."""
    text = text.removeprefix("\ufeff")
    if not _CANARY.match(text):
        return text
    lines = text.split("\n")
    first = 0
    while first < len(lines) and (_CANARY.match(lines[first]) or (first and not lines[first].strip())):
        first += 1
    return "\n".join(lines[first:])


@lru_cache(maxsize=64)
def _path_pattern(roots: tuple[str, ...]) -> re.Pattern[str]:
    folders = "|".join(re.escape(root[1:]) for root in sorted(roots, key=len, reverse=True))
    # The slash comes before the look behind it: a pattern that starts with a plain character is found much faster.
    # Atomic, so that a name cut short by a placeholder is no name; a closing `**` is Markdown, `*.csv` a pattern.
    ends = r"(?![\w{$]|<(?!/)|(?<=/)\*|\*+[\w/-]|\*+\.\w)"
    return re.compile(rf"/(?<![\w/.~-]/)(?:{folders})(?>(?:/[\w.@%+~=-]+)+/?){ends}")


def named_paths(text: str, roots: tuple[str, ...], workdir: str | None = None) -> tuple[PathCandidate, ...]:
    """The paths below `roots` that the text names, in order of their last telling mention.

    Names of files count with the folder that their sentence says unless the text says somewhere where they are, and
    those that begin with ./ below `workdir`.
    """
    marks = (*roots, "./") if workdir else roots
    if not _names_any(marks, text):
        return ()
    roles: dict[str, Role] = {}
    made: set[str] = set()
    for path, role, writer in _told(text, marks, roots, workdir):
        if writer == "program":
            made.add(path)
        elif writer == "reader":
            made.discard(path)
        known = roles.get(path)
        if role == "output" or known is None or (known == "mentioned" and role == "input"):
            roles.pop(path, None)
            roles[path] = role
    return tuple(
        PathCandidate(path=path, role="mentioned" if path in made and role == "output" else role)
        for path, role in roles.items()
    )


def _told(
    text: str, marks: tuple[str, ...], roots: tuple[str, ...], workdir: str | None
) -> Iterator[tuple[str, Role, Writer | None]]:
    """Every mention of a path: what its sentence makes of it, and by whom it is written if it says so."""
    whole = set(_BASE_NAME.findall(text))
    mentions = (
        (sentence, lead, *mention)
        for sentence, lead in _sentences(text, marks)
        for mention in _mentions(sentence, roots, workdir)
    )
    for sentence, lead, path, match in islice(mentions, _MOST_MENTIONS):
        role = _role(sentence, match, lead)
        name = match.group()
        # A name alone has to be asked for, and to be nowhere else.
        if name[0] != "/" and (role != "output" or (name[0] != "." and posixpath.basename(name) in whole)):
            continue
        before = sentence[max(0, match.start() - _CONTEXT) : match.start()]
        yield path, role, writer_of(before, lead) if role == "output" else None


def _mentions(sentence: str, roots: tuple[str, ...], workdir: str | None) -> Iterator[tuple[str, re.Match[str]]]:
    """Every path below a root that a sentence names, and where."""
    spans = [span.span() for span in _CODE.finditer(sentence)] if "`" in sentence else []
    folders = list(_folder_pattern(roots).finditer(sentence))
    for match in _either_pattern(roots).finditer(sentence):
        whole = match.group()
        if whole[0] == ".":
            whole = _in_workdir(whole, roots, workdir)
        elif whole[0] != "/":
            whole = _in_folder(sentence, match, folders)
        path = _clean(whole, roots)
        if path is not None and not _in_command(sentence, match, spans):
            yield path, match


@lru_cache(maxsize=64)
def _either_pattern(roots: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(f"{_path_pattern(roots).pattern}|{FILE_NAME}")


@lru_cache(maxsize=64)
def _folder_pattern(roots: tuple[str, ...]) -> re.Pattern[str]:
    folders = "|".join(re.escape(root[1:]) for root in sorted(roots, key=len, reverse=True))
    return re.compile(rf"/(?<![\w/.~-]/)(?:{folders})(?>(?:/[\w@%+~=-]+)*+/?)(?![\w{{$<*@%+~=-]|\.\w)")


def _is_place(sentence: str, match: re.Match[str]) -> bool:
    """Whether a folder is where something is to be put: after a preposition, and not where something comes from."""
    before = sentence[max(0, match.start() - _CONTEXT) : match.start()]
    return _PLACED.search(before) is not None and cue_before(before) != "input"


def _in_workdir(name: str, roots: tuple[str, ...], workdir: str | None) -> str:
    """A name that begins with ./ as a whole path; "./workspace/out.json" may mean the folder above as well."""
    is_clear = name.split("/")[1] not in {posixpath.basename(root) for root in roots}
    return posixpath.join(workdir, name[2:]) if workdir and is_clear else ""


def _in_folder(sentence: str, match: re.Match[str], folders: list[re.Match[str]]) -> str:
    """A name of a file as a whole path: in the next folder that the sentence names, else in the last one before it."""
    following = bisect(folders, match.start(), key=re.Match.start)
    near = (*folders[following : following + 1], *folders[max(0, following - 1) : following])
    place = next((folder.group() for folder in near if _is_place(sentence, folder)), "")
    return posixpath.join(place, match.group()) if place else ""


def _names_any(roots: tuple[str, ...], text: str) -> bool:
    # A plain loop: this is asked of every sentence, and a generator costs more than the search itself.
    for root in roots:  # noqa: SIM110 - see above
        if root in text:
            return True
    return False


def _clean(found: str, roots: tuple[str, ...]) -> str | None:
    """The path without the sentence's full stop, None when nothing below a root is left of it that can be a name."""
    path = found.rstrip(".")
    if "/." in path or path.endswith("/"):
        path = posixpath.normpath(path)
    return path if path.startswith(_below(roots)) and not _PLACEHOLDER.search(path) else None


@lru_cache(maxsize=64)
def _below(roots: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{root}/" for root in roots)


def _sentences(text: str, roots: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Each sentence that may name a path, with the one that leads up to it: empty unless that ended in a colon."""
    lead = ""
    for paragraph in _without_code(text.replace("\r\n", "\n")).split("\n\n"):
        if not _names_any(roots, paragraph):
            said = paragraph.strip()
            lead = (said if said.endswith(":") or said.startswith("#") else "") if said else lead
            continue
        lead = yield from _paragraph(paragraph, roots, lead)


def _paragraph(paragraph: str, roots: tuple[str, ...], lead: str) -> Generator[tuple[str, str], None, str]:
    """The sentences of one paragraph; returns what leads up to the next one."""
    for item in _ITEMS.split(paragraph):
        marker = _ITEM.match(item)
        used = False
        for part in _SENTENCES.split(item[marker.end() :] if marker else item):
            sentence = part.strip()
            if not sentence:
                continue
            if _names_any(roots, sentence):
                yield sentence, "" if used else lead
            used = sentence[-1] != ":"
            lead = lead if used else sentence
        # The items of a list share what leads up to it.
        if used and not marker:
            lead = ""
    return lead


def _without_code(text: str) -> str:
    """The text with `…` for its code blocks; a block of nothing but one path stays, as a line of its own."""
    if "```" not in text and "~~~" not in text and "$ " not in text:
        return text
    lines = text.splitlines()
    fences = [index for index, line in enumerate(lines) if line.lstrip()[:3] in _FENCES]
    alone = _lines_alone(text, lines, fences)
    kept: list[str] = []
    first, inside = 0, False
    for fence in fences:
        kept += [lines[index] for index in range(first, fence) if index + 1 in alone] if inside else lines[first:fence]
        first, inside = fence + 1, not inside
        kept.append("" if fence + 2 in alone or not inside else "\n…\n")
    kept += [lines[index] for index in range(first, len(lines)) if index + 1 in alone] if inside else lines[first:]
    if "$ " in text:
        kept = ["…" if line.lstrip().startswith("$ ") else line for line in kept]
    return "\n".join(kept)


def _lines_alone(text: str, lines: list[str], fences: list[int]) -> Container[int]:
    """The numbers of the first lines of all blocks that hold one word and no more."""
    for fence, following in pairwise([*fences, len(lines)]):
        if len("\n".join(lines[fence + 1 : following]).split(None, 1)) <= 1:
            return {block.line for block in fenced_blocks(text) if len(block.body.split()) == 1}
    return ()


def _in_command(sentence: str, match: re.Match[str], spans: list[tuple[int, int]]) -> bool:
    """Whether the path is one word of several in an inline code span."""
    for start, end in spans:
        if start < match.start() < end:
            return bool((sentence[start + 1 : match.start()] + sentence[match.end() : end - 1]).strip())
    return False


def _role(sentence: str, match: re.Match[str], lead: str) -> Role:
    before = sentence[max(0, match.start() - _CONTEXT) : match.start()]
    after = sentence[match.end() : match.end() + _CONTEXT]
    if says_to_keep(after):
        return "input"
    if lead.startswith("#") and before.strip(_MARKS):
        lead = ""  # a heading speaks for what stands at the beginning
    return cue_before(before) or cue_after(after) or (cue_before(lead) if lead else None) or "mentioned"
