"""Reviews as JSON lines: those of the journal itself, which hold everything."""

from collections.abc import Iterable, Iterator

from pydantic import ValidationError

from seatrial.model.review import ReviewEntry
from seatrial.review.exchange.api import Read


def write_jsonl(entries: Iterable[ReviewEntry]) -> bytes:
    """The file with a line for each entry."""
    return b"".join(entry.model_dump_json(exclude_defaults=True).encode() + b"\n" for entry in entries)


def read_jsonl(content: bytes, _: str) -> Iterator[Read]:
    """What each line says."""
    for number, line in enumerate(content.split(b"\n"), start=1):
        if line.strip():
            yield Read(f"line {number}", _entry(line))


def _entry(line: bytes) -> ReviewEntry | str:
    try:
        return ReviewEntry.model_validate_json(line)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        where = ".".join(map(str, problem["loc"]))
        return f"{where}: {problem['msg']}" if where else str(problem["msg"])
