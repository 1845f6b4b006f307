"""Does a parsed output have the shape the task asks for? A JSON Schema, or a list of required keys."""

from typing import Any

from seatrial.model.output import ShapeSpec
from seatrial.scoring.findings import Finding, excerpt, note
from seatrial.scoring.formats import Parsed

_MAX_REPORTED = 10
_WHERE = {
    "required_keys": "required by task.toml",
    "example": "shown in the instruction's example",
}


def check_shape(parsed: Parsed, shape: ShapeSpec) -> list[Finding]:
    """What does not fit, one finding per fault; an empty list when it does or nothing is asked for."""
    faults = [Finding("schema_mismatch", oddity) for oddity in parsed.oddities]
    if shape.source == "schema":
        return faults + _check_schema(parsed.value, shape.json_schema)
    if shape.source == "none":
        return faults
    if parsed.keys is None:
        return [*faults, Finding("schema_mismatch", f"found {_kind(parsed.value)}, expected {_wanted(shape)}")]
    missing = [key for key in shape.required_keys if key not in parsed.keys]
    return faults + [
        Finding("schema_mismatch", f"the key {excerpt(key)} is missing, {_WHERE[shape.source]}") for key in missing
    ]


def _wanted(shape: ShapeSpec) -> str:
    return f"the keys {', '.join(map(excerpt, shape.required_keys))} ({_WHERE[shape.source]})"


def _kind(value: Any) -> str:
    named = {dict: "an object", list: "a list without objects", str: "text", type(None): "nothing with keys"}
    return named.get(type(value), f"a {type(value).__name__}")


def _check_schema(value: Any, schema: dict[str, Any] | None) -> list[Finding]:
    # Half of a run's start-up time when imported at the top, and most tasks have no schema.
    from jsonschema.validators import Draft202012Validator, validator_for  # noqa: PLC0415 - slow, and few tasks have a schema
    from referencing import Registry  # noqa: PLC0415 - slow, and few tasks have a schema

    try:
        kind = validator_for(schema or {}, default=Draft202012Validator)
        kind.check_schema(schema or {})
        # A registry of its own keeps the validator from fetching references over the network.
        errors = kind(schema or {}, registry=Registry()).iter_errors(value)
        found = [error for error, _ in zip(errors, range(_MAX_REPORTED), strict=False)]
    # The schema is the task author's, and what jsonschema raises on an odd one is not documented.
    except Exception as error:  # noqa: BLE001 - see above
        return [note(f"the task's JSON Schema cannot be used: {excerpt(str(error))}")]
    return [Finding("schema_mismatch", f"{error.json_path}: {excerpt(error.message)}") for error in found]
