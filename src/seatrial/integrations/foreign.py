"""What an import needs to know of a trial that another program ran, and how untrusted files are read for it.

Readers of foreign formats (`harbor`, `verifiers`) make these values; nothing else of a format is seen outside its
reader. Files are plain ones only, bounded, and each fault names its file and line.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from pydantic import ValidationError

from seatrial.errors import ImportSourceError
from seatrial.model.base import check_json_object
from seatrial.model.record import AgentResult, Failure, ImportedFrom, ModelUsage, PhaseTime, SourceFormat
from seatrial.model.trace import ModelCall
from seatrial.untrusted.files import open_file, read_file
from seatrial.untrusted.json import first_fault

IMPORTED_PATH = "imported"
"""The path of model calls of which a source has only the messages."""


@dataclass(frozen=True, slots=True)
class ForeignTask:
    """A task as its source names it."""

    id: str
    name: str
    digest: str
    """Of all that the source says about its content."""
    source: str | None = None


@dataclass(frozen=True, slots=True, order=True)
class ForeignAgent:
    """Who acted, and with which model."""

    name: str
    version: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class ForeignVerdict:
    """What the source's verifier said of a trial, or of one of its steps: a `score`, or why there is none."""

    score: float | None
    fault: str = ""
    notes: tuple[str, ...] = ()
    parts: Mapping[str, Any] = field(default_factory=dict)
    """The other values it gave."""


@dataclass(frozen=True, slots=True)
class ForeignStep:
    """One step of a task that has several; its verdict is None where it was never judged."""

    name: str
    verdict: ForeignVerdict | None = None


@dataclass(frozen=True, slots=True)
class ForeignTrial:
    """One trial: a `verdict`, or a `failure` of the machinery it ran on."""

    task: ForeignTask
    agent: ForeignAgent
    origin: ImportedFrom
    counted_as: float | None
    """The number with which it stands in the mean of its source; None if it is not in there."""
    verdict: ForeignVerdict | None = None
    failure: Failure | None = None
    agent_result: AgentResult | None = None
    usage: ModelUsage | None = None
    times: Sequence[PhaseTime] = ()
    steps: Sequence[ForeignStep] = ()
    calls: Sequence[ModelCall] = ()


@dataclass(frozen=True, slots=True)
class Skipped:
    """A part of the source that cannot be read: where it is, and what is wrong with it."""

    place: str
    reason: str


class ForeignSource(Protocol):
    """The results of another program in a folder."""

    @property
    def format(self) -> SourceFormat:
        """Which program's."""
        ...

    @property
    def version(self) -> str | None:
        """Which version of it, as far as it says so."""
        ...

    @property
    def sha256(self) -> str:
        """A digest of all results."""
        ...

    @property
    def stored_means(self) -> Mapping[ForeignAgent, float]:
        """The mean that the source gives for each agent, where it does."""
        ...

    @property
    def rule(self) -> str:
        """How the source counts what has no verdict, in a few words."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """What a reader of the numbers should know besides."""
        ...

    def trials(self) -> Iterator[ForeignTrial | Skipped]:
        """All trials, in an order that is the same each time. Raises ImportSourceError if the source has changed."""
        ...


# Untrusted files.

MOST_BYTES_OF_FILE = 256 * 2**20
MOST_BYTES_OF_LINE = 64 * 2**20
MOST_BYTES_OF_LINES = 2**40
_BLOCK = 2**20
_SURE_DIGITS, _MOST_DIGITS = 19, 20


class SourceFault(ValueError):
    """What was found is not what should be there; the message says both."""


def read_object(path: Path, name: str) -> tuple[dict[str, Any], str]:
    """The JSON object in a file, and the file's digest. Raises SourceFault, which calls the file `name`."""
    try:
        content = read_file(path, MOST_BYTES_OF_FILE)
    except OSError as error:
        raise SourceFault(f"{name}: cannot be read: {error.strerror or error}") from None
    try:
        return storable_object(content), hashlib.sha256(content).hexdigest()
    except SourceFault as error:
        raise SourceFault(f"{name}: {error}") from None


def read_own_result(path: Path) -> dict[str, Any]:
    """What a source says about itself as a whole; empty where it says nothing. Raises ImportSourceError."""
    if not path.exists():
        return {}
    try:
        return read_object(path, str(path))[0]
    except SourceFault as error:
        raise ImportSourceError(f"{error}; mend it, or move it away to import without it") from None


def storable_object(content: bytes) -> dict[str, Any]:
    """A JSON object whose values can be stored. Raises SourceFault.

    NaN and infinities, which Python writes and JSON does not have, are read as null. Whole numbers of more than 64
    bits, which no file of ours holds, are read as text.
    """
    try:
        value = json.loads(content, parse_constant=_no_number, parse_int=_whole_number)
    except RecursionError:
        raise SourceFault("is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise SourceFault(f"is not UTF-8 text: {error.reason} at byte {error.start}") from None
    except ValueError as error:
        raise SourceFault(f"is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise SourceFault(f"holds a {type(value).__name__}, expected an object")
    try:
        return check_json_object(value)
    except ValueError as error:
        raise SourceFault(f"has a value that cannot be stored: {error}") from None


def _no_number(_: str) -> None:
    return None


def _whole_number(digits: str) -> int | str:
    if len(digits) < _SURE_DIGITS:
        return int(digits)
    return int(digits) if len(digits) <= _MOST_DIGITS and -(2**63) <= int(digits) < 2**64 else digits


def storable(make: Callable[[], ForeignTrial], place: str) -> ForeignTrial | Skipped:
    """A trial, or why what was found cannot be kept as one."""
    try:
        return make()
    except ValidationError as error:
        return Skipped(place, f"has a value that cannot be stored: {first_fault(error)}")


def open_lines(path: Path) -> BinaryIO:
    """A plain file to read lines of. Raises ImportSourceError."""
    try:
        return open_file(path, MOST_BYTES_OF_LINES)
    except OSError as error:
        raise ImportSourceError(f"{path}: cannot be read: {error.strerror or error}") from error


def digest_of(path: Path) -> str:
    """The SHA-256 of a file of any length. Raises ImportSourceError."""
    digest = hashlib.sha256()
    with open_lines(path) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def numbered_lines(path: Path, sha256: str) -> Iterator[tuple[int, bytes | None]]:
    """The lines of a file with their numbers, without those that are blank; None for one that is too long to be read.

    Raises ImportSourceError at the end if the file is not the one that has this digest.
    """
    digest = hashlib.sha256()
    with open_lines(path) as file:
        number = 0
        while line := file.readline(MOST_BYTES_OF_LINE):
            number += 1
            digest.update(line)
            whole: bytes | None = line
            while not line.endswith(b"\n") and (line := file.readline(_BLOCK)):
                digest.update(line)
                whole = None
            if whole is None or whole.strip():
                yield number, whole
    if digest.hexdigest() != sha256:
        raise ImportSourceError(f"{path}: was changed while it was read; import it when nobody writes to it")
