"""Reviews as records of Argilla: the questions `judgment`, `categories` and `notes`, answered by one user each.

We write a record for each verdict, with what Argilla has no question for in its metadata. A record from there may have
the answers of several users, each of which is a first verdict.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from seatrial.model.review import ReviewEntry
from seatrial.review.exchange.api import Read, read_list
from seatrial.review.exchange.rows import FIELDS, BadRow, from_row, to_row

_QUESTIONS = ("judgment", "categories", "notes")


def write_argilla(entries: Iterable[ReviewEntry]) -> bytes:
    """The file with a record for each entry."""
    return orjson.dumps([_record(entry) for entry in entries], option=orjson.OPT_INDENT_2) + b"\n"


def read_argilla(content: bytes, moment: str) -> Iterator[Read]:
    """What each user answered to each record."""
    records = read_list(content, "records as Argilla exports them")
    if isinstance(records, Read):
        yield records
        return
    for number, record in enumerate(records, start=1):
        for who, row in _rows(record, moment):
            yield Read(f"record {number}{who}", _entry(row))


def _record(entry: ReviewEntry) -> dict[str, Any]:
    row = to_row(entry)
    return {
        "id": entry.key,
        "status": "completed",
        "fields": {"trial_id": entry.trial_id},
        "metadata": {name: value for name, value in row.items() if name not in (*_QUESTIONS, "trial_id")},
        "suggestions": {},
        "responses": {name: [{"value": row[name], "user_id": entry.reviewer_id}] for name in _QUESTIONS if name in row},
    }


def _rows(record: Any, moment: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """What each user says, as rows. One of ours has its user in the metadata, and one that takes back no answers."""
    fields, metadata, responses = (_object(record, name) for name in ("fields", "metadata", "responses"))
    known = {name: value for name, value in metadata.items() if name in FIELDS}
    base = {"timestamp": _text(record, "updated_at") or moment, **known, "trial_id": fields.get("trial_id")}
    answers: dict[str, dict[str, Any]] = {}
    for question in _QUESTIONS:
        said = responses.get(question)
        for answer in said if isinstance(said, list) else ():
            if isinstance(answer, dict) and answer.get("user_id") is not None:
                answers.setdefault(str(answer["user_id"]), {})[question] = answer.get("value")
    if not answers:
        yield "", base
    for user, given in answers.items():
        yield (f", user {user}" if len(answers) > 1 else ""), {**base, "reviewer_id": user, **given}


def _entry(row: dict[str, Any]) -> ReviewEntry | str:
    try:
        return from_row(row)
    except BadRow as error:
        return str(error)


def _object(value: Any, name: str) -> dict[str, Any]:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _text(value: Any, name: str) -> str | None:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, str) else None
