"""Which keys a job file has that a job has not, in any of its tables, and what was probably meant by them.

The tables and their keys are those of the types; nothing is listed here a second time.
"""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from seatrial.model.base import StrictModel
from seatrial.model.job import JobSpec


def key_complaints(values: Mapping[Any, Any]) -> list[str]:
    """Each key that is no text or that no job has, with the key that was probably meant."""
    return [*_odd_keys(values, ""), *_unknown_keys(values, JobSpec, "")]


def nearest(key: str, known: list[str]) -> str | None:
    """The known key that this one is probably a misspelling of."""
    found = difflib.get_close_matches(key, known, n=1)
    return found[0] if found else None


def _odd_keys(value: Any, prefix: str) -> Iterator[str]:
    """Keys that are no text: YAML reads `on`, `no`, `1` and nothing at all as other things."""
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                yield f"{prefix}{key}: expected a key that is text, found {key!r}; put it in quotes"
            yield from _odd_keys(item, f"{prefix}{key}.")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _odd_keys(item, f"{prefix}{index}.")


def _unknown_keys(values: Mapping[Any, Any], model: type[StrictModel], prefix: str) -> Iterator[str]:
    for key, value in values.items():
        field = model.model_fields.get(key)
        if field is None:
            yield f"{prefix}{key}: no such key{_meant(str(key), model, prefix)}"
            continue
        table = _table_type(field.annotation)
        if table and isinstance(value, dict):
            yield from _unknown_keys(value, table, f"{prefix}{key}.")
        elif table and isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, dict):
                    yield from _unknown_keys(item, table, f"{prefix}{key}.{index}.")


def _table_type(annotation: Any) -> type[StrictModel] | None:
    """The type of the table, or of the tables in the array, that a field holds; None for any other field."""
    if isinstance(annotation, type) and issubclass(annotation, StrictModel):
        return annotation
    return next(filter(None, map(_table_type, get_args(annotation))), None)


def _meant(key: str, model: type[StrictModel], prefix: str) -> str:
    """A key of the same table that is spelled like it; else one of that name, or nearly, in another table."""
    own = list(model.model_fields)
    elsewhere = _keys_by_name(JobSpec, "")
    if near := nearest(key, own):
        return f"; did you mean {prefix}{near}?"
    if near := key if key in elsewhere else nearest(key, list(elsewhere)):
        return f"; did you mean {elsewhere[near]}?"
    return f"; the keys {f'of {prefix[:-1]} ' if prefix else ''}are {', '.join(own)}"


def _keys_by_name(model: type[StrictModel], prefix: str) -> dict[str, str]:
    """Where each name is a key. Of two tables that have it, the outer one counts."""
    names = {name: f"{prefix}{name}" for name in model.model_fields}
    for name, field in model.model_fields.items():
        if table := _table_type(field.annotation):
            names = {**_keys_by_name(table, f"{prefix}{name}."), **names}
    return names
