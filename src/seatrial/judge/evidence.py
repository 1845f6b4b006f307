"""What a judge sees of a trial: pieces of evidence between markers that nothing in them can imitate.

All of it is hostile. Every marker has a nonce that occurs in no piece, the brackets of markers are replaced inside
pieces, and characters that hide or reorder text are written out by their numbers. Sizes are bounded, and what is left
out is named, to the judge and in the assessment. The nonce is a digest of the rubric and of the evidence itself: an
agent cannot put it into what it is made of, and the same question is the same request again, so that answers can be
cached and replayed.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property

from seatrial.judge.rubric import EvidenceKind
from seatrial.untrusted.files import BoundedContent, bounded

MOST_CHARACTERS = 200_000
"""Of all pieces that one question sees, together."""

READ_BYTES = 2**18
"""Of one file: more is never shown."""

_NONCE_LETTERS = 16
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)
_BRACKETS = re.compile("<{3,}|>{3,}")
_LOOKALIKES = str.maketrans("<>", "\u2039\u203a")
_STRAIGHT = str.maketrans("\u2039\u203a\u201c\u201d\u2018\u2019\u2013\u2014\xa0", "<>\"\"''-- ")
_ELLIPSIS = re.compile(r"\s*(?:\[\s*)?(?:…|\.{3,})(?:\s*\])?\s*")
_SPACE = re.compile(r"\s+")
_MOST_REPLACED = 0.1


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of evidence; with a `note` instead of content where there is none, such as a file that is missing."""

    kind: EvidenceKind
    name: str
    content: BoundedContent
    note: str = ""


def text_piece(kind: EvidenceKind, name: str, text: str, limit: int = READ_BYTES) -> Piece:
    """A piece of text that is in memory already."""
    return Piece(kind, name, bounded(text.encode("utf-8", "replace"), limit))


def absent(kind: EvidenceKind, name: str, note: str) -> Piece:
    """A piece that is not there, which a judge must know."""
    return Piece(kind, name, BoundedContent(b"", b"", 0), note)


@dataclass(frozen=True)
class Evidence:
    """All pieces of one trial. `rubric_digest` is of the rubric by which they are judged."""

    pieces: tuple[Piece, ...]
    rubric_digest: str = ""
    most_characters: int = MOST_CHARACTERS

    @cached_property
    def digest(self) -> str:
        """Of all that a judge may see, and how much of it."""
        found = hashlib.sha256(f"{self.rubric_digest} {self.most_characters}".encode())
        for piece in self.pieces:
            head = json.dumps([piece.kind, piece.name, piece.note, piece.content.size]).encode()
            for part in (head, piece.content.head, piece.content.tail):
                found.update(hashlib.sha256(part).digest())
        return found.hexdigest()

    @cached_property
    def nonce(self) -> str:
        """What every marker has and no piece."""
        nonce = self.digest[:_NONCE_LETTERS]
        while any(self._occurs(nonce, piece) for piece in self.pieces):
            nonce = hashlib.sha256(nonce.encode()).hexdigest()[:_NONCE_LETTERS]
        return nonce

    def view(self, kinds: Sequence[EvidenceKind], files: Sequence[str] = ()) -> "View":
        """What a question sees: the pieces of these kinds, and of output files those that fit a pattern."""
        chosen = [piece for piece in self.pieces if piece.kind in kinds and _fits(piece, files)]
        return View(*_laid_out(chosen, self.nonce, self.most_characters))

    @staticmethod
    def _occurs(nonce: str, piece: Piece) -> bool:
        code = nonce.encode()
        return nonce in f"{piece.name}\n{piece.note}" or code in piece.content.head + piece.content.tail


@dataclass(frozen=True)
class View:
    """The evidence of one question as text, with what was left out of it."""

    text: str
    shown: tuple[str, ...] = field(repr=False)
    """The pieces alone, for looking quotes up."""

    cuts: tuple[str, ...] = ()

    @cached_property
    def _haystack(self) -> str:
        return "\n".join(map(plain, self.shown))

    def holds(self, quote: str) -> bool:
        """Whether a quote occurs in the evidence; spaces, case and the form of quotation marks may differ.

        One with an ellipsis occurs if its parts do, in their order.
        """
        at, parts = 0, [part for part in _ELLIPSIS.split(plain(quote).strip(" \"'`")) if part]
        for part in parts:
            found = self._haystack.find(part, at)
            if found < 0:
                return False
            at = found + len(part)
        return bool(parts)


def plain(text: str) -> str:
    """A text as quotes are compared."""
    return _SPACE.sub(" ", text.translate(_STRAIGHT)).casefold()


def harmless_text(text: str) -> str:
    """A stranger's text as it may stand between markers: nothing in it is hidden, and nothing looks like a marker."""
    text = text.replace("\r\n", "\n")
    text = _HIDDEN.sub(lambda found: f"[U+{ord(found.group()):04X}]", text)
    return _BRACKETS.sub(lambda found: found.group().translate(_LOOKALIKES), text)


def fence(kind: str, name: str, text: str, nonce: str) -> str:
    """A text between markers; it must be harmless by now."""
    named = harmless_text(json.dumps(name, ensure_ascii=False)).translate(_LOOKALIKES)
    return f"<<<evidence {nonce} {kind} {named}>>>\n{text}\n<<<end {nonce}>>>"


def _fits(piece: Piece, files: Sequence[str]) -> bool:
    chosen = piece.kind not in ("output", "turns") or not files
    return chosen or any(matches(piece.name, pattern) for pattern in files)


def matches(path: str, pattern: str) -> bool:
    """Whether a file is meant by a pattern: the file itself, all below a folder, or a wildcard.

    A pattern that does not begin with a slash may begin in any folder.
    """
    pattern = pattern.rstrip("/")
    places = (pattern,) if pattern.startswith("/") else (pattern, f"*/{pattern}")
    return path.startswith(f"{pattern}/") or any(path == place or fnmatchcase(path, place) for place in places)


def _laid_out(pieces: Sequence[Piece], nonce: str, room: int) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    texts = [_texts(piece) for piece in pieces]
    shares = _shares([len(head) + len(tail) for head, tail, _ in texts], room)
    sections, shown, cuts = [], [], []
    for piece, (head, tail, gone), share in zip(pieces, texts, shares, strict=True):
        left_out = gone + max(0, len(head) + len(tail) - share)
        if left_out:
            if len(head) + len(tail) > share:
                head, tail = head[: share - share // 4], (head + tail)[len(head) + len(tail) - share // 4 :]  # noqa: PLW2901
            cuts.append(f"{piece.kind} {piece.name}: about {left_out:,} of {piece.content.size:,} bytes are left out")
            text = f"{head}\n<<<cut {nonce} about {left_out:,} bytes are left out here>>>\n{tail}"
        else:
            text = head + tail
        sections.append(fence(piece.kind, piece.name, text, nonce))
        shown += [head, tail] if left_out else [text]
    return "\n\n".join(sections), tuple(shown), tuple(cuts)


def _texts(piece: Piece) -> tuple[str, str, int]:
    """Beginning and end of a piece as harmless text, and how many bytes between them were not read."""
    if piece.note:
        return f"({harmless_text(piece.note)})", "", 0
    content = piece.content
    if not content.size:
        return "(empty)", "", 0
    head, tail = _decoded(content.head), _decoded(content.tail)
    if _is_binary(content.head, head):
        digest = hashlib.sha256(content.head + content.tail).hexdigest()[:16]
        return f"(a binary file of {content.size:,} bytes, which is not shown; digest {digest})", "", 0
    return harmless_text(head), harmless_text(tail), content.left_out


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace").removeprefix("\ufeff")


def _is_binary(data: bytes, text: str) -> bool:
    return b"\0" in data or text.count("\ufffd") > _MOST_REPLACED * max(len(text), 1)


def _shares(sizes: Sequence[int], room: int) -> list[int]:
    """How much of each is shown: small ones whole, and what is left is shared out evenly among the others."""
    shares, left = [0] * len(sizes), room
    for number, at in enumerate(sorted(range(len(sizes)), key=sizes.__getitem__)):
        shares[at] = min(sizes[at], left // (len(sizes) - number))
        left -= shares[at]
    return shares
