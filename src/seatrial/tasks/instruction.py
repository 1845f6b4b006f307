"""What an instruction says about files: which paths it names, and whether it asks for them or hands them out.

Every mention is judged by its own sentence: the nearest cue before the path decides, else the first one after it.
Paths inside command lines do not count: they are somebody's example, not a request.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

from seatrial.model.output import PathCandidate
from seatrial.tasks.cues import cue_after, cue_before
from seatrial.verifier_kit import fenced_blocks

Role = Literal["output", "mentioned", "input"]

_CANARY = re.compile(r"\s*(#|//|<!--).*canary", re.IGNORECASE)
_FENCE = re.compile(r"^\s*(```|~~~)")
_SPLIT = re.compile(r"\n(?=\s*(?:[-*+|#>]|\d+[.)])\s?)|[.!?;]\s+(?=[^a-z])")


def strip_canary(text: str) -> str:
    """The instruction as the agent may see it: without the leading comment lines that hold a canary."""
    lines = text.removeprefix("\ufeff").split("\n")
    first = 0
    while first < len(lines) and (_CANARY.match(lines[first]) or (first and not lines[first].strip())):
        first += 1
    return "\n".join(lines[first:])


@lru_cache(maxsize=64)
def _path_pattern(roots: tuple[str, ...]) -> re.Pattern[str]:
    folders = "|".join(re.escape(root[1:]) for root in sorted(roots, key=len, reverse=True))
    # The slash comes before the look behind it: a pattern that starts with a plain character is found much faster.
    return re.compile(rf"/(?<![\w/.~-]/)(?:{folders})(?:/[\w.@%+~=-]+)+/?(?!/?[*<{{$\w])")


def named_paths(text: str, roots: tuple[str, ...]) -> tuple[PathCandidate, ...]:
    """The absolute paths below `roots` that the text names, in order of their last telling mention."""
    if not any(root in text for root in roots):
        return ()
    pattern = _path_pattern(roots)
    roles: dict[str, Role] = {}
    for sentence, lead in _sentences(text, roots):
        for match in pattern.finditer(sentence):
            if _in_command(sentence, match):
                continue
            path = match.group().rstrip(".").rstrip("/")
            role = _role(sentence, match, lead)
            known = roles.get(path)
            if role == "output" or known is None or (known == "mentioned" and role == "input"):
                roles.pop(path, None)
                roles[path] = role
    return tuple(PathCandidate(path=path, role=role) for path, role in roles.items())


def _sentences(text: str, roots: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Each sentence that may name a path, with the one that leads up to it: empty unless that ended in a colon."""
    lead = ""
    for paragraph in _without_code(text.replace("\r\n", "\n")).split("\n\n"):
        relevant = any(root in paragraph for root in roots)
        for sentence in _SPLIT.split(paragraph) if relevant else (paragraph,):
            stripped = sentence.strip()
            if not stripped:
                continue
            if relevant:
                yield stripped, lead
            lead = stripped if stripped.endswith(":") else ""


def _without_code(text: str) -> str:
    """The text with `…` for its code blocks; a block of nothing but one path stays, as a line of its own."""
    if "```" not in text and "~~~" not in text:
        return text
    kept, inside = [], False
    alone = {block.line: block.body for block in fenced_blocks(text) if len(block.body.split()) == 1}
    for number, line in enumerate(text.splitlines(), start=1):
        if _FENCE.match(line):
            inside = not inside
            kept.append("" if number + 1 in alone or not inside else "\n…\n")
        elif not inside or number in alone:
            kept.append(line)
    return "\n".join(kept)


def _in_command(sentence: str, match: re.Match[str]) -> bool:
    """Whether the path is one word of several in an inline code span, or follows a shell prompt."""
    if sentence.startswith("$ "):
        return True
    before, after = sentence[: match.start()], sentence[match.end() :]
    if before.count("`") % 2 == 0:
        return False
    span = before[before.rfind("`") + 1 :] + after[: after.find("`") if "`" in after else None]
    return bool(span.strip())


def _role(sentence: str, match: re.Match[str], lead: str) -> Role:
    before, after = sentence[: match.start()], sentence[match.end() :]
    return cue_before(before) or cue_after(after) or cue_before(lead) or "mentioned"
