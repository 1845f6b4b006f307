"""Reviews out of a job and into it: as CSV, as JSON lines, and from copies of the job."""

import csv
import io
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from pydantic import ValidationError

from seatrial.analysis.tables import no_formula
from seatrial.errors import JobError, UsageError
from seatrial.model.review import ReviewEntry
from seatrial.store.job_store import JobStore
from seatrial.untrusted.json import first_fault

# A format reads piece by piece, so that each can be named.


@dataclass(frozen=True, slots=True)
class Read:
    """One piece of a file, where it is, and the entry that it says; or what is wrong with it."""

    place: str
    said: ReviewEntry | str


@dataclass(frozen=True, slots=True)
class ReviewFormat:
    """A format by name."""

    name: str
    write: Callable[[Iterable[ReviewEntry]], bytes]
    read: Callable[[bytes], Iterator[Read]]


# Flat rows, for tables. Nothing is lost on the way: a name that a row does not have was not said.

FIELDS: Mapping[str, tuple[str, ...]] = {
    "trial_id": ("trial_id",),
    "reviewer_id": ("annotation", "reviewer_id"),
    "reviewer_discipline": ("annotation", "reviewer_discipline"),
    "timestamp": ("annotation", "timestamp"),
    "judgment": ("annotation", "judgment"),
    "categories": ("annotation", "categories"),
    "notes": ("annotation", "notes"),
    "role": ("role",),
    "blind": ("blind",),
    "seconds": ("seconds",),
    "id": ("id",),
    "takes_back": ("retraction", "entry"),
    "stratum": ("sampling", "stratum"),
    "probability": ("sampling", "probability"),
    "where": ("sampling", "where"),
    "task_digest": ("context", "task_digest"),
    "tests_digest": ("context", "tests_digest"),
    "rubric_digest": ("context", "rubric_digest"),
    "revision": ("context", "revision"),
}
"""The names of a row, and where an entry has their values."""

_OWN_NAMES = {"reviewer_id": ("retraction", "reviewer_id"), "timestamp": ("retraction", "timestamp")}
"""Where a retraction has what a verdict has elsewhere."""


class BadRow(ValueError):
    """A row that is no review; says which value is wrong, what was found and what was expected."""


def to_row(entry: ReviewEntry) -> dict[str, Any]:
    """The values of an entry that it has, by name."""
    dumped = entry.model_dump(mode="json")
    found = {name: _at(dumped, path) for name, path in _paths(is_retraction=entry.retraction is not None).items()}
    return {name: value for name, value in found.items() if value is not None and value != []}


def from_row(row: Mapping[str, Any]) -> ReviewEntry:
    """The entry of a row. Raises BadRow."""
    unknown = [name for name in row if name not in FIELDS]
    if unknown:
        raise BadRow(f"{unknown[0]!r} is no name of a value; expected {', '.join(FIELDS)}")
    values: dict[str, Any] = {}
    for name, path in _paths(is_retraction=row.get("takes_back") is not None).items():
        if row.get(name) is not None:
            _put(values, path, row[name])
    return read_entry(values)


def read_entry(values: Mapping[str, Any]) -> ReviewEntry:
    """The entry that JSON values say. Raises BadRow."""
    try:
        return ReviewEntry.model_validate_json(json.dumps(values))
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        where = ".".join(map(str, problem["loc"])) or "the row"
        found = f", found {str(problem['input'])[:80]!r}" if problem["type"] != "missing" else ""
        raise BadRow(f"{where}: {problem['msg']}{found}") from error


def _paths(*, is_retraction: bool) -> dict[str, tuple[str, ...]]:
    if not is_retraction:
        return {name: path for name, path in FIELDS.items() if name != "takes_back"}
    kept = {name: path for name, path in FIELDS.items() if path[0] != "annotation"}
    return kept | _OWN_NAMES


def _at(values: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    found: Any = values
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _put(values: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    *folders, last = path
    for name in folders:
        values = values.setdefault(name, {})
    values[last] = value


# CSV for spreadsheets. A text that one would take for a formula gets an apostrophe before it, as in all our tables;
# here so does one that is empty or begins with an apostrophe, so that the first apostrophe is never the reviewer's own.

_JSON = {
    "categories": 'a list such as ["units"], or words with commas between them',
    "blind": "true or false",
    "seconds": "a number",
    "probability": "a number",
    "revision": "a whole number",
}
"""The columns that hold no text, and what they hold."""

_NEEDED = ("trial_id", "reviewer_id", "timestamp", "judgment")


def write_csv_rows(entries: Iterable[ReviewEntry]) -> bytes:
    out = io.StringIO(newline="")
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(FIELDS)
    for entry in entries:
        row = to_row(entry)
        writer.writerow([_cell(row[name]) if name in row else "" for name in FIELDS])
    return out.getvalue().encode()


def read_csv_rows(content: bytes) -> Iterator[Read]:
    """What each row says, by the line that it ends on. Columns may be in any order, and those not needed may lack.

    Spreadsheets put semicolons or tabs between cells in some countries; what is between the names of columns counts.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        yield Read("the file", f"is no UTF-8 ({error.reason} at byte {error.start}); save it as CSV UTF-8")
        return
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))  # a note may be longer than Python's usual cell
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text))
    try:
        header = next(reader, [])
        missing = [name for name in _NEEDED if name not in header]
        unknown = [name for name in header if name not in FIELDS]
        if missing or unknown:
            wrong = f"has no column {missing[0]!r}" if missing else f"has an unknown column {unknown[0]!r}"
            yield Read("line 1", f"{wrong}; the columns are {', '.join(FIELDS)}")
            return
        for cells in reader:
            if cells:
                yield Read(f"line {reader.line_num}", _read(header, cells))
    except csv.Error as error:
        yield Read(f"line {reader.line_num}", f"is no CSV: {error}")


def _delimiter(text: str) -> str:
    header = text.partition("\n")[0]
    return max(",;\t", key=header.count)


def _read(header: list[str], cells: list[str]) -> ReviewEntry | str:
    if len(cells) != len(header):
        return f"has {len(cells)} cells, expected {len(header)}"
    try:
        return from_row({name: _value(name, cell) for name, cell in zip(header, cells, strict=True) if cell})
    except BadRow as error:
        return str(error)


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return no_formula(value, "'") or "'"
    return json.dumps(value, ensure_ascii=False)


def _value(name: str, cell: str) -> Any:
    if name == "categories" and not cell.startswith("["):
        return [each.strip() for each in cell.split(",") if each.strip()]
    if name not in _JSON:
        return cell.removeprefix("'")
    try:
        return json.loads(cell.lower() if name == "blind" else cell)
    except (ValueError, RecursionError):
        raise BadRow(f"{name}: found {cell[:80]!r}, expected {_JSON[name]}") from None


# JSON lines: those of the journal itself, which hold everything.


def write_jsonl(entries: Iterable[ReviewEntry]) -> bytes:
    return b"".join(entry.model_dump_json(exclude_defaults=True).encode() + b"\n" for entry in entries)


def read_jsonl(content: bytes) -> Iterator[Read]:
    for number, line in enumerate(content.split(b"\n"), start=1):
        if line.strip():
            yield Read(f"line {number}", _entry(line))


def _entry(line: bytes) -> ReviewEntry | str:
    try:
        return ReviewEntry.model_validate_json(line)
    except ValidationError as error:
        return first_fault(error)


# Formats by name and by the ending of a file's name.

FORMATS = {
    each.name: each
    for each in (
        ReviewFormat("jsonl", write_jsonl, read_jsonl),
        ReviewFormat("csv", write_csv_rows, read_csv_rows),
    )
}
_ENDINGS = {".jsonl": "jsonl", ".csv": "csv"}


def format_of(name: str | None, file: PurePath) -> ReviewFormat:
    """The format of that name, or of a file by its ending. Raises UsageError where that does not say."""
    chosen = name or _ENDINGS.get(file.suffix.lower())
    if chosen is None:
        raise UsageError(f"{file}: the name does not say which format it is; give --format {'|'.join(FORMATS)}")
    return FORMATS[chosen]


# Import: from a file, where every piece has to be sound, or from a copy of the job.


@dataclass(frozen=True, slots=True)
class Sorted:
    """The entries that can be added, and what is wrong with the others: a line each, which names its place."""

    sound: tuple[ReviewEntry, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Merged:
    """What a copy of a job brought: entries that were new, how many were there already, and trials nobody knows."""

    added: tuple[ReviewEntry, ...]
    known: int
    unknown_trials: tuple[str, ...]


def sort_out(store: JobStore, pieces: Iterable[Read]) -> Sorted:
    """Tell what can be added to a job from what cannot: no review, one of another trial, or one that is there."""
    finished, seen = store.finished(), known_keys(store)
    sound: list[ReviewEntry] = []
    problems: list[str] = []
    for piece in pieces:
        problem = piece.said if isinstance(piece.said, str) else _problem(piece.said, finished, seen)
        if problem:
            problems.append(f"{piece.place}: {problem}")
        elif isinstance(piece.said, ReviewEntry):
            seen[piece.said.key] = f"on {piece.place}"
            sound.append(piece.said)
    return Sorted(tuple(sound), tuple(problems))


def merge_reviews(store: JobStore, other: JobStore, damaged: Callable[[str], None]) -> Merged:
    """Add what a copy of the job has and this one has not. Raises JobError for another job, and adds nothing then."""
    if store.file.id is None or store.file.id != other.file.id:
        raise JobError(
            f"{other.path}: holds another job ({other.file.spec.name}, id {other.file.id}) than {store.path} "
            f"({store.file.spec.name}, id {store.file.id}); only copies of one job can be merged"
        )
    finished, known = store.finished(), known_keys(store)
    every = [entry for entries in other.reviews(damaged).values() for entry in entries]
    new = [entry for entry in every if entry.key not in known]
    fitting = {entry.key: entry for entry in new if entry.trial_id in finished}
    unknown = sorted({entry.trial_id for entry in new} - finished)
    if fitting:
        store.add_reviews(*fitting.values())
    return Merged(tuple(fitting.values()), len(every) - len(new), tuple(unknown))


def known_keys(store: JobStore) -> dict[str, str]:
    """The keys of all entries that a job has, each with where it is."""
    return {entry.key: "in the journal" for entries in store.reviews().values() for entry in entries}


def _problem(entry: ReviewEntry, finished: Collection[str], seen: dict[str, str]) -> str | None:
    if entry.trial_id not in finished:
        return f"the job has no finished trial {entry.trial_id!r}"
    if entry.key in seen:
        return f"the same review is there already, {seen[entry.key]}"
    return None
