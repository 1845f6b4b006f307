"""Reviews as Label Studio has them: a list of tasks, each with the annotations of those who labelled it.

A trial is a task, a verdict an annotation whose choices are `judgment` and `categories` and whose text is `notes`. What
Label Studio has no place for goes into the annotation's `meta`; without it, as when the verdict was given there, it is
a first one. One that was skipped there defers.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from seatrial.model.review import ReviewEntry
from seatrial.review.exchange.api import Read, read_list
from seatrial.review.exchange.rows import BadRow, from_row, to_row

_OWN = "seatrial"
_SAID = ("judgment", "categories", "notes")


def write_label_studio(entries: Iterable[ReviewEntry]) -> bytes:
    """The file with a task for each trial."""
    trials: defaultdict[str, list[ReviewEntry]] = defaultdict(list)
    for entry in entries:
        trials[entry.trial_id].append(entry)
    tasks = [
        {"data": {"trial_id": trial}, "annotations": [_annotation(each) for each in said]}
        for trial, said in trials.items()
    ]
    return orjson.dumps(tasks, option=orjson.OPT_INDENT_2) + b"\n"


def read_label_studio(content: bytes, moment: str) -> Iterator[Read]:
    """What each annotation of each task says."""
    tasks = read_list(content, "tasks as Label Studio exports them")
    if isinstance(tasks, Read):
        yield tasks
        return
    for number, task in enumerate(tasks, start=1):
        data, said = _field(task, "data", dict), _field(task, "annotations", list)
        trial = data.get("trial_id") if data else None
        if not isinstance(trial, str) or said is None:
            yield Read(f"task {number}", "has no data.trial_id or no annotations; export tasks with `trial_id` first")
            continue
        for index, annotation in enumerate(said, start=1):
            yield Read(f"task {number}, annotation {index}", _entry(trial, annotation, moment))


def _annotation(entry: ReviewEntry) -> dict[str, Any]:
    row = to_row(entry)
    choices = {"judgment": [row["judgment"]]} if "judgment" in row else {}
    if "categories" in row:
        choices["categories"] = row["categories"]
    result = [_result(name, "choices", {"choices": chosen}) for name, chosen in choices.items()]
    if "notes" in row:
        result.append(_result("notes", "textarea", {"text": [row["notes"]]}))
    own = {name: value for name, value in row.items() if name not in _SAID and name != "trial_id"}
    return {
        "completed_by": {"email": row["reviewer_id"]},
        "created_at": row["timestamp"],
        "lead_time": row.get("seconds"),
        "was_cancelled": False,
        "result": result,
        "meta": {_OWN: own},
    }


def _result(name: str, kind: str, value: dict[str, Any]) -> dict[str, Any]:
    return {"from_name": name, "to_name": "trial", "type": kind, "value": value}


def _entry(trial: str, annotation: Any, moment: str) -> ReviewEntry | str:
    if not isinstance(annotation, dict):
        return f"is {type(annotation).__name__}, expected an object"
    row: dict[str, Any] = {
        "reviewer_id": _reviewer(annotation.get("completed_by")),
        "timestamp": annotation.get("created_at") or moment,
        "seconds": annotation.get("lead_time"),
        **(_field(_field(annotation, "meta", dict) or {}, _OWN, dict) or {}),
        "trial_id": trial,
        **_results(annotation),
    }
    if annotation.get("was_cancelled") and "takes_back" not in row:
        row["judgment"] = "defer"
    try:
        return from_row(row)
    except BadRow as error:
        return str(error)


def _results(annotation: Mapping[str, Any]) -> dict[str, Any]:
    """The verdict, the categories and the notes; what else somebody labelled is theirs."""
    found: dict[str, Any] = {}
    for result in _field(annotation, "result", list) or []:
        value, name = _field(result, "value", dict) or {}, result.get("from_name") if isinstance(result, dict) else None
        chosen, text = value.get("choices"), value.get("text")
        if name == "judgment" and isinstance(chosen, list) and len(chosen) == 1:
            found["judgment"] = chosen[0]
        elif name == "categories" and isinstance(chosen, list):
            found["categories"] = chosen
        elif name == "notes" and text is not None:
            found["notes"] = "\n".join(map(str, text)) if isinstance(text, list) else text
    return found


def _reviewer(said: Any) -> str | None:
    if isinstance(said, dict):
        said = said.get("email") or said.get("id")
    return str(said) if said is not None else None


def _field(value: Any, name: str, kind: type) -> Any:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, kind) else None
