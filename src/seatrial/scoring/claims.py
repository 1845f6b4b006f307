"""What a verifier claims in details.json beside its dimensions: error tags, and how sure one may be of the reward.

Both are kept as its claims. What only the run itself can know, such as that an agent changed programs, stays ours to
say: a verifier's tag of such a category is kept under another name.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from seatrial.model.evaluation import (
    OUTPUT_MISSING,
    OUTPUT_UNPARSEABLE,
    RUN_CATEGORIES,
    ConfidenceMetadata,
    ErrorSource,
    ErrorTag,
)
from seatrial.scoring.findings import Finding, excerpt, note
from seatrial.verifier_kit import TAGS_KEY

CONFIDENCE_KEY = "confidence"
MAX_TAGS = 100
_MAX_CATEGORY = 100
_MAX_DESCRIPTION = 2000
_MAX_NAMED = 5
_SOURCES = {source.value: source for source in ErrorSource}
_CLAIMED = "verifier:"
_OURS = RUN_CATEGORIES | {OUTPUT_MISSING, OUTPUT_UNPARSEABLE}


def claimed_tags(declared: Any, findings: list[Finding]) -> tuple[ErrorTag, ...]:
    """The error tags that a verifier gives; what is wrong with others goes to `findings`, and those are left out.

    An entry is a category, or an object with `category`, `description` and `source`.
    """
    if declared is None:
        return ()
    entries = declared if isinstance(declared, list) else [declared]
    complaints: list[str] = []
    tags = [tag for entry in entries[:MAX_TAGS] for tag in _tag(entry, complaints)]
    if len(entries) > MAX_TAGS:
        complaints.append(f"has {len(entries):,} entries; the first {MAX_TAGS} are tags")
    findings += [note(f"`{TAGS_KEY}` {complaint}") for complaint in complaints[:_MAX_NAMED]]
    if len(complaints) > _MAX_NAMED:
        findings.append(note(f"`{TAGS_KEY}` has {len(complaints) - _MAX_NAMED} more such entries"))
    return tuple(tags)


def _tag(entry: Any, complaints: list[str]) -> Iterator[ErrorTag]:
    fields = entry if isinstance(entry, dict) else {"category": entry}
    category, description = fields.get("category"), fields.get("description")
    if not (isinstance(category, str) and category.strip()):
        complaints.append(f"has an entry without a category: {excerpt(str(entry))}")
        return
    if len(category) > _MAX_CATEGORY:
        complaints.append(f"has a category of {len(category):,} characters, expected up to {_MAX_CATEGORY}")
        return
    if category in _OURS:
        complaints.append(f"has the category {excerpt(category)}, which only Seatrial gives: kept as {_CLAIMED}…")
        category = f"{_CLAIMED}{category}"
    text = description[:_MAX_DESCRIPTION] if isinstance(description, str) else None
    yield ErrorTag(category=category, description=text, source=_source(fields, complaints))


def _source(fields: Mapping[str, Any], complaints: list[str]) -> ErrorSource:
    said = fields.get("source", ErrorSource.MECHANICAL.value)
    known = _SOURCES.get(said) if isinstance(said, str) else None
    if known is None:
        complaints.append(
            f"has an entry with the source {excerpt(str(said))}, expected {', '.join(_SOURCES)}; taken as mechanical"
        )
    return known or ErrorSource.MECHANICAL


def claimed_confidence(declared: Any, findings: list[Finding]) -> ConfidenceMetadata | None:
    """How sure a verifier says one may be; None where it says nothing of that.

    A dimension may be called `confidence` too. It has none of these fields, and stays what it is.
    """
    known = ConfidenceMetadata.model_fields
    if not isinstance(declared, dict) or not known.keys() & declared.keys():
        return None
    strange = sorted(declared.keys() - known.keys())[:_MAX_NAMED]
    findings += [note(f"`{CONFIDENCE_KEY}` has the key {excerpt(name)}, which it does not know") for name in strange]
    # Strict types take an array for a tuple only from JSON text.
    told = {name: tuple(value) if isinstance(value, list) else value for name, value in declared.items()}
    valid = {name: told[name] for name in known if name in told and _is_valid(name, told[name], findings)}
    return ConfidenceMetadata.model_validate(valid) if valid else None


def _is_valid(name: str, value: Any, findings: list[Finding]) -> bool:
    try:
        ConfidenceMetadata.model_validate({name: value})
    except ValidationError as error:
        findings.append(note(f"`{CONFIDENCE_KEY}.{name}` is left out: {_complaint(error, value)}"))
        return False
    return value is not None


def _complaint(error: ValidationError, found: Any) -> str:
    problem = error.errors()[0]["msg"].removeprefix("Value error, ").replace("Input should be", "expected")
    return f"{problem}, found {excerpt(str(found))}"
