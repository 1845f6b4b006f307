"""What a reviewer may see before a verdict, and by which names: nothing that tells who worked, or what was made of it.

Ids of trials have the agent's name in them, so reviewers meet keys in their place. What is shown is listed here, field
by field; nothing gets into it by not having been taken out.
"""

import hashlib
import hmac
import posixpath
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from seatrial.model.job import JobFile
from seatrial.model.record import FileChanges
from seatrial.model.review import ReviewEntry

FileRole = Literal["output", "published", "added", "modified", "removed"]
"""`output`: what the task asks for. `published`: handed over for keeping. Others: what the agent did to a file."""

_KEY_DIGITS = 24


@dataclass(frozen=True, slots=True)
class BlindFile:
    """A file that the agent left, by the name it had in its sandbox."""

    name: str
    role: FileRole


@dataclass(frozen=True, slots=True)
class BlindItem:
    """All that is told of a trial before the verdict. `instruction` is None where it cannot be had any more.

    `left_out` is how many more files there are than those that are listed.
    """

    key: str
    task: str
    category: str | None
    instruction: str | None
    files: tuple[BlindFile, ...]
    left_out: int = 0


def desk_key(job: JobFile, folder: str) -> str:
    """The name under which a job is reviewed, the same after every start.

    Copies of a job have other ones, by the names of their folders: a verdict has to get into the journal it is for.
    """
    return _digest(job, "desk", folder)


def item_key(job: JobFile, trial_id: str) -> str:
    return _digest(job, "item", trial_id)


def _digest(job: JobFile, kind: str, name: str) -> str:
    secret = f"{job.id}\0{job.created_at.isoformat()}".encode()
    said = f"{kind}\0{name}".encode("utf-8", "surrogatepass")
    return hmac.new(secret, said, hashlib.sha256).hexdigest()[:_KEY_DIGITS]


def is_revealed(reviewer: str, entries: Iterable[ReviewEntry]) -> bool:
    """Whether a reviewer knows what became of a trial: whoever has given a verdict does, even if they took it back."""
    return any(each.annotation and each.reviewer_id == reviewer for each in entries)


def changed_files(changes: FileChanges, workdir: str, instruction: str) -> list[BlindFile]:
    """What an agent did below its work directory, without what it keeps for itself.

    Agents keep settings and logs in folders and files whose names begin with a dot, and their model is named there. One
    that the instruction speaks of is part of the work.
    """
    found: dict[FileRole, Iterable[str]] = {
        "added": changes.added,
        "modified": changes.modified,
        "removed": changes.removed,
    }
    return [
        BlindFile(path, role) for role, paths in found.items() for path in paths if _is_work(path, workdir, instruction)
    ]


def _is_work(path: str, workdir: str, instruction: str) -> bool:
    below = posixpath.relpath(path, workdir)
    parts = below.split("/")
    hidden = (part for part in parts if part.startswith("."))
    return parts[0] not in (".", "..") and all(part in instruction for part in hidden)
