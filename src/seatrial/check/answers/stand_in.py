"""A wrong answer that looks like a right one: a cheat leaves it behind, so that its verifier gets as far as it can.

What the stand-in is worth by itself is asked too. A cheat pays only if it is worth more than that.
"""

import json
import posixpath
import re
from typing import Any

from seatrial.check.cases import Subject
from seatrial.trial.end_state import Edit

_MAX_DEPTH = 20
_WRONG_TEXT = "stand-in"
_DIGIT = re.compile(rb"[1-9]")
_EMPTY_CODE = {".py": "# nothing\n", ".sh": "#!/bin/sh\nexit 1\n", ".js": "process.exit(1)\n"}


def output_path(subject: Subject) -> str | None:
    """Where the task's answer belongs, None where nobody knows."""
    if subject.task.output.path:
        return subject.task.output.path
    paths = {answer.path for answer in subject.answers}
    return paths.pop() if len(paths) == 1 else None  # of several, any may be an input that the solution touched


def stand_in(subject: Subject) -> Edit | None:
    """A wrong answer for the task's output, None where there is no file to write."""
    path = output_path(subject)
    if path is None or path.endswith("/"):
        return None
    content = _wrong(path, next((answer.content for answer in subject.answers if answer.path == path), b""))
    return Edit(path, content, mode=0o755 if path.endswith(".sh") else 0o644)


def _wrong(path: str, right: bytes) -> bytes:
    suffix = posixpath.splitext(path)[1].lower()
    if suffix in _EMPTY_CODE:
        return _EMPTY_CODE[suffix].encode()
    if suffix == ".json":
        try:
            return json.dumps(_emptied(json.loads(right))).encode()
        except (ValueError, RecursionError):
            return b"{}\n"
    zeros = _DIGIT.sub(b"0", right)
    return zeros if zeros != right else f"{_WRONG_TEXT}\n".encode()


def _emptied(value: Any, depth: int = 0) -> Any:
    """The same shape with other values: zeros, and words that mean nothing."""
    if depth > _MAX_DEPTH:
        return None
    if isinstance(value, dict):
        return {key: _emptied(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_emptied(item, depth + 1) for item in value[:1]]
    if isinstance(value, str):
        return _WRONG_TEXT
    return value if isinstance(value, bool) or value is None else 0
