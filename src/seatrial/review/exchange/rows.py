"""A review as one flat row of named values, and back: what tables and other programs' metadata can hold.

Nothing is lost on the way. A name that a row does not have means the same as in an entry: not said.
"""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from seatrial.model.review import ReviewEntry

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
