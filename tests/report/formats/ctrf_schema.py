"""What CTRF 0.0.0 asks for, in our words, as a JSON Schema: required fields, their types, and nothing beside them."""

from typing import Any

STATUSES = ["passed", "failed", "skipped", "pending", "other"]
_COUNT = {"type": "integer", "minimum": 0}
_TEXTS = {"type": "array", "items": {"type": "string"}}


def _closed(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "type": "object",
        "required": [*required],
        "properties": {**required, **(optional or {})},
        "additionalProperties": False,
    }


_TOOL = _closed({"name": {"type": "string", "minLength": 1}}, {"version": {"type": "string"}, "extra": {}})
_SUMMARY = _closed(
    dict.fromkeys(("tests", *STATUSES, "start", "stop"), _COUNT),
    {"suites": _COUNT, "flaky": _COUNT, "duration": _COUNT, "extra": {"type": "object"}},
)
_TEST = _closed(
    {"name": {"type": "string", "minLength": 1}, "status": {"enum": STATUSES}, "duration": _COUNT},
    {
        "start": _COUNT,
        "stop": _COUNT,
        "suite": {**_TEXTS, "minItems": 1},
        "message": {"type": "string"},
        "trace": {"type": "string"},
        "rawStatus": {"type": "string"},
        "tags": _TEXTS,
        "retries": _COUNT,
        "flaky": {"type": "boolean"},
        "extra": {"type": "object"},
    },
)
CTRF_SCHEMA: dict[str, Any] = _closed(
    {
        "reportFormat": {"const": "CTRF"},
        "specVersion": {"type": "string", "pattern": r"^\d+\.\d+\.\d+$"},
        "results": _closed({"tool": _TOOL, "summary": _SUMMARY, "tests": {"type": "array", "items": _TEST}}),
    },
    {"reportId": {"type": "string"}, "timestamp": {"type": "string"}, "generatedBy": {"type": "string"}, "extra": {}},
)
