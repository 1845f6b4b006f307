"""Which number counts: reads the reward files, applies the precedence, and says why a reward is not one.

A reward is a finite number in [0, 1]. Everything else a file may hold is told apart: an invalid reward, a sentinel
by which a verifier says it could not judge, and a file that is about something else. `read_details` reads what a
verifier says beside it: the breakdown, and its claims of tags and confidence.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any, Literal, NamedTuple

from pydantic import ValidationError

from seatrial.model.evaluation import (
    OUTPUT_MISSING,
    OUTPUT_UNPARSEABLE,
    RUN_CATEGORIES,
    ConfidenceMetadata,
    ErrorSource,
    ErrorTag,
    category_slug,
)
from seatrial.model.outcome import format_reward
from seatrial.model.output import (
    CTRF_JSON,
    DETAILS_NAMES,
    REWARD_JSON,
    REWARD_TXT,
    RawArtifacts,
    RawFile,
    RewardPolicy,
    VerdictSource,
    VerifierSpec,
)
from seatrial.scoring.text import Finding, note
from seatrial.untrusted.json import Unreadable, decode, excerpt, read_strict
from seatrial.verifier_kit import TAGS_KEY

MAX_REWARD_BYTES = 2**20
_MAX_NAMED_KEYS = 20
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class RewardFile:
    """What one file says. Exactly one of `value` and `fault` is set, unless it is not a reward file at all.

    A value is `stated` by the verifier, or a `mean` that nobody has stated.
    """

    name: str
    value: float | None = None
    fault: Finding | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[Finding, ...] = ()
    kind: Literal["stated", "mean", "empty"] = "stated"

    @property
    def foreign(self) -> bool:
        """Whether the file exists and is about something else."""
        return self.value is None and self.fault is None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The reward that counts (None when there is none), the file that said it, and everything noticed on the way."""

    value: float | None
    file: str | None
    findings: tuple[Finding, ...] = ()
    extras: Mapping[str, Any] = field(default_factory=dict)

    @property
    def silent(self) -> bool:
        """Whether there is no verdict, be it that the verifier said nothing, gave up, or wrote what is no reward.

        It makes no difference which: an agent may bring about any of them, and must not leave the mean by it.
        """
        return self.value is None


def reward_order(spec: VerifierSpec, policy: RewardPolicy = "declared") -> tuple[str, ...]:
    """The reward file names in the order in which they decide."""
    return _reward_order(spec.reward_path, policy)


@lru_cache(maxsize=64)
def _reward_order(path: str, policy: RewardPolicy) -> tuple[str, ...]:
    declared = PurePosixPath(path).name
    names = (REWARD_TXT, REWARD_JSON) if policy == "text_first" else (declared, REWARD_JSON, REWARD_TXT)
    return tuple(dict.fromkeys(names))


def read_verdict(
    raw: RawArtifacts, spec: VerifierSpec, policy: RewardPolicy = "declared", source: VerdictSource = "reward"
) -> Verdict:
    """Read every reward file and settle which one counts. Never raises on their content.

    With the source `exit_status`, the verifier's exit status is the verdict where there is no reward file.
    """
    files = map(raw.file, reward_order(spec, policy))
    found = [read_reward_file(file) for file in files if file.status != "missing"]
    extras = {key: value for file in reversed(found) for key, value in file.extras.items()}
    winner = _deciding(found)
    if raw.verifier_timed_out:
        return Verdict(None, None, (_out_of_time(winner),), extras)
    if source == "exit_status" and not found and raw.verifier_exit_code is not None:
        return _by_exit_status(raw.verifier_exit_code)
    if winner is None:
        return Verdict(None, None, (_nothing_usable(found, raw.verifier_exit_code),), extras)
    findings = [*winner.notes, *([winner.fault] if winner.fault else [])]
    findings += [_compare(winner, other) for other in found if other is not winner and other.value != winner.value]
    return Verdict(winner.value, winner.name, tuple(findings), extras)


def _deciding(found: list[RewardFile]) -> RewardFile | None:
    """The first file that says something. An empty one gives way to any other, a mean to a reward that is stated."""
    speaking = [file for file in found if not file.foreign]
    first = next((file for file in speaking if file.kind != "empty"), None)
    if first is not None and first.kind == "mean":
        return next((file for file in speaking if file.kind == "stated" and file.value is not None), first)
    return first or next(iter(speaking), None)


def _by_exit_status(exit_code: int) -> Verdict:
    value = 1.0 if exit_code == 0 else 0.0
    said = f"the verifier wrote no reward file; its exit status {exit_code} is the verdict, so {value} counts"
    return Verdict(value, None, (note(said),))


def read_reward_file(file: RawFile) -> RewardFile:
    """What one reward file says; text by the suffix .txt, JSON otherwise."""
    if file.status == "too_large" or file.size > MAX_REWARD_BYTES:
        return _invalid(file.name, f"a file of {file.size:,} bytes")
    if file.status != "ok":
        return _invalid(file.name, file.describe())
    try:
        if not file.data.strip(b"\xef\xbb\xbf \t\r\n"):
            fault = Finding("verifier_error", f"{file.name} is empty: the verifier gave up")
            return RewardFile(file.name, fault=fault, kind="empty")
        return _from_text(file) if file.name.endswith(".txt") else _from_json(file)
    except Unreadable as error:
        return _invalid(file.name, str(error))


def _from_text(file: RawFile) -> RewardFile:
    text = decode(file.data).strip()
    if not _NUMBER.fullmatch(text):
        return _invalid(file.name, f"{excerpt(text)}, which is not one number")
    return _from_number(file.name, float(text), {})


def _from_json(file: RawFile) -> RewardFile:
    value = read_strict(file.data)
    if _is_number(value):
        return _from_number(
            file.name, value, {}, note(f"{file.name} is a bare number, expected an object with `reward`")
        )
    if not isinstance(value, dict):
        return _invalid(file.name, _describe(value))
    return _from_object(file, value)


def _from_object(file: RawFile, value: dict[str, Any]) -> RewardFile:
    if "reward" in value:
        extras = {key: item for key, item in value.items() if key != "reward"}
        if not _is_number(value["reward"]):
            return _invalid(file.name, _describe(value["reward"]), extras)
        return _from_number(file.name, value["reward"], extras)
    numbers = [key for key, item in value.items() if _is_number(item)]
    if len(numbers) == 1:
        reason = note(f"{file.name} has no `reward`; its only number, {excerpt(numbers[0])}, counts")
        return _from_number(file.name, value[numbers[0]], value, reason)
    if numbers and all(0 <= value[key] <= 1 for key in numbers):
        return _mean(file.name, {key: value[key] for key in numbers}, value)
    return RewardFile(file.name, extras=value)


def _mean(name: str, numbers: Mapping[str, float], extras: Mapping[str, Any]) -> RewardFile:
    mean = math.fsum(numbers.values()) / len(numbers)
    reason = note(f"{name} has no `reward`; the mean {format_reward(mean)} of {_keys(numbers)} counts")
    # Rounding must not take the mean of numbers that are at most 1 beyond 1.
    return RewardFile(name, min(mean, 1.0) + 0.0, extras=extras, notes=(reason,), kind="mean")


def _keys(values: Mapping[str, Any]) -> str:
    """The first keys of an object, as they are quoted to people."""
    shown = [excerpt(key) for key, _ in zip(values, range(_MAX_NAMED_KEYS), strict=False)]
    rest = len(values) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


def _from_number(name: str, number: float, extras: Mapping[str, Any], *notes: Finding) -> RewardFile:
    if number == -1:
        fault = Finding("verifier_error", f"{name} says -1: the verifier could not judge")
        return RewardFile(name, fault=fault, extras=extras)
    if not 0 <= number <= 1:
        return _invalid(name, f"{number!s:.40}", extras)
    return RewardFile(name, float(number) + 0.0, extras=extras, notes=notes)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _describe(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        return f"the text {excerpt(value)}"
    return {None: "null", True: "true", False: "false"}[value]


def _invalid(name: str, found: str, extras: Mapping[str, Any] | None = None) -> RewardFile:
    fault = Finding("reward_invalid", f"{name}: found {found}; expected a number from 0 to 1")
    return RewardFile(name, fault=fault, extras=extras or {})


def _nothing_usable(foreign: list[RewardFile], exit_code: int | None) -> Finding:
    if foreign:
        named = "; ".join(f"{file.name} has the keys {_keys(file.extras) or '(none)'}" for file in foreign)
        return Finding("reward_invalid", f"{named}; expected `reward`, or numbers from 0 to 1")
    ending = "" if exit_code is None else f"; the verifier exited with {exit_code}"
    return Finding("verifier_error", f"the verifier wrote no reward file{ending}")


def _out_of_time(unfinished: RewardFile | None) -> Finding:
    said = f"; {unfinished.name} said {unfinished.value} by then" if unfinished and unfinished.value is not None else ""
    return Finding("verifier_error", f"the verifier was stopped at the end of its time{said}")


def _compare(winner: RewardFile, other: RewardFile) -> Finding:
    if other.foreign:
        return note(f"{other.name} holds no reward, so {winner.name} was read")
    if other.fault:
        return note(f"{winner.name} counts; beside it, {other.fault.message}")
    if winner.value is None:
        return note(f"{other.name} beside it says {other.value}, but {winner.name} decides")
    if other.kind == "mean":
        return note(
            f"{winner.name} states a reward, so the mean of the numbers in {other.name}, {other.value}, does not count"
        )
    said = f"{winner.name} says {winner.value}, {other.name} says {other.value}; {winner.name} counts"
    return Finding("reward_conflict", said)


# Claims in details.json: error tags, and how sure one may be of the reward. What only the run itself can know stays
# ours to say: a verifier's tag of such a category is kept under another name.

CONFIDENCE_KEY = "confidence"
_NEVER_CLAIMED = ("claimed", "judges", "judge_agreement", "judge_unscored")
"""What of a confidence is known from elsewhere, and never from a verifier."""

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
    if category_slug(category) in _OURS:
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
    known = {name: field for name, field in ConfidenceMetadata.model_fields.items() if name not in _NEVER_CLAIMED}
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


# The breakdown: details.json or its older name, extra keys of the reward file, and a CTRF test report.

MAX_DETAILS_BYTES = 8 * 2**20
_MAX_LISTED_TESTS = 100


class Details(NamedTuple):
    """The breakdown as it will be stored, what the verifier claims besides, and the file the details came from."""

    breakdown: dict[str, Any] | None
    tags: tuple[ErrorTag, ...] = ()
    file: str | None = None
    findings: tuple[Finding, ...] = ()
    confidence: ConfidenceMetadata | None = None


def read_details(raw: RawArtifacts, spec: VerifierSpec, extras: Mapping[str, Any]) -> Details:
    """Put the breakdown together; nothing is dropped, and what collides is kept under the name of its file."""
    file = _details_file(raw, spec)
    findings: list[Finding] = []
    breakdown = _read_object(file, findings) if file else {}
    if file and file.name != DETAILS_NAMES[0]:
        findings.append(note(f"details were read from {file.name}"))
    tags = claimed_tags(breakdown.get(TAGS_KEY), findings)
    confidence = claimed_confidence(breakdown.get(CONFIDENCE_KEY), findings)
    for key, value in extras.items():
        if breakdown.setdefault(key, value) != value:
            breakdown[f"reward.{key}"] = value
    report = raw.file(CTRF_JSON)
    if report.status != "missing":
        breakdown["ctrf" if "ctrf" not in breakdown else CTRF_JSON] = _test_report(report, findings)
    return Details(breakdown or None, tags, file.name if file else None, tuple(findings), confidence)


def _details_file(raw: RawArtifacts, spec: VerifierSpec) -> RawFile | None:
    files = map(raw.file, _details_names(spec.details_path))
    return next((file for file in files if file.status != "missing"), None)


@lru_cache(maxsize=64)
def _details_names(declared: str | None) -> tuple[str, ...]:
    first = [PurePosixPath(declared).name] if declared else []
    return tuple(dict.fromkeys([*first, *DETAILS_NAMES]))


def _read_object(file: RawFile, findings: list[Finding]) -> dict[str, Any]:
    if file.status != "ok" or file.size > MAX_DETAILS_BYTES:
        limit = f"expected a JSON file of at most {MAX_DETAILS_BYTES:,} bytes"
        findings.append(Finding("details_invalid", f"{file.name}: found {file.describe()}; {limit}"))
        return {}
    try:
        value = read_strict(file.data)
    except Unreadable as error:
        findings.append(Finding("details_invalid", f"{file.name}: {error}"))
        return {}
    if isinstance(value, dict):
        return value
    findings.append(note(f"{file.name} is not an object; it is kept under `details`"))
    return {"details": value}


def _test_report(file: RawFile, findings: list[Finding]) -> dict[str, Any]:
    report = _read_object(file, findings)
    results = report.get("results")
    if not isinstance(results, dict):
        return report
    tests = results.get("tests")
    failed = [
        {key: test[key] for key in ("name", "status", "message") if key in test}
        for test in (tests if isinstance(tests, list) else ())
        if isinstance(test, dict) and test.get("status") != "passed"
    ]
    return {"summary": results.get("summary"), "not_passed": failed[:_MAX_LISTED_TESTS]}
