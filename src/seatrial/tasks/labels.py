"""By what results are grouped: category, difficulty, family and tags, as task.toml has them under [metadata].

Everybody writes there what they like, so a value that is no label is left out and never an error.
"""

from collections.abc import Mapping
from typing import Any

from seatrial.model.config import TaskConfig
from seatrial.model.job import TaskLabels

_FAMILIES = ("family", "template", "template_id")
_MAX_TAGS, _MAX_LETTERS = 50, 100


def labels_of(config: TaskConfig) -> TaskLabels:
    """The labels of a task."""
    metadata = config.metadata
    tags = metadata.get("tags", metadata.get("keywords", list(config.package.keywords)))
    found = map(_label, tags if isinstance(tags, list | tuple) else [tags])
    return TaskLabels(
        category=_label(metadata.get("category")),
        difficulty=_label(metadata.get("difficulty")),
        family=_first(metadata, _FAMILIES),
        tags=tuple(dict.fromkeys(filter(None, found)))[:_MAX_TAGS],
    )


def _first(metadata: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    return next(filter(None, (_label(metadata.get(name)) for name in names)), None)


def _label(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return str(value).strip()[:_MAX_LETTERS] or None
