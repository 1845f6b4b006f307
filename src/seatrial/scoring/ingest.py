"""ingest: a verifier's files and the agent's output become an EvaluationResult, whatever they hold.

The output is checked, gates may take the reward away, and wrong numbers are classified. `reward.py` reads the verdict,
`formats.py` parses the output.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from seatrial.model.evaluation import OUTPUT_MISSING, OUTPUT_UNPARSEABLE, ErrorTag, EvaluationResult, ValidityCheck
from seatrial.model.loaded_task import Task, TaskStep
from seatrial.model.output import OutputSpec, RawArtifacts, RawFile, RewardPolicy, ShapeSpec, VerdictSource
from seatrial.scoring.formats import Parsed, parse
from seatrial.scoring.reward import read_details, read_verdict
from seatrial.scoring.text import Finding, note
from seatrial.untrusted.json import Unreadable, excerpt


def ingest(
    task: Task | TaskStep, raw: RawArtifacts, policy: RewardPolicy = "declared", source: VerdictSource = "reward"
) -> EvaluationResult:
    """Turn raw artifacts into a validated result. Never raises on their content: bad content is part of the answer.

    `policy` says which reward file decides when there are two, `source` what does when there is none.
    """
    verdict = read_verdict(raw, task.verifier, policy, source)
    details = read_details(raw, task.verifier, verdict.extras)
    given = verdict.value or 0.0
    output = check_output(task.output, raw.output, given)
    reward, gated = apply_gates(given, task.output, output)
    findings = [*output.findings, *verdict.findings, *gated, *details.findings, *classify(details.breakdown)]
    return EvaluationResult(
        reward=reward,
        validity=ValidityCheck(
            output_parseable=output.parseable,
            schema_valid=output.schema_valid,
            verifier_completed=verdict.value is not None,
            errors=[finding.line() for finding in findings],
        ),
        breakdown=details.breakdown,
        error_taxonomy=_tags(findings, details.tags) or None,
        confidence=details.confidence,
    )


def _tags(findings: Iterable[Finding], declared: Iterable[ErrorTag]) -> list[ErrorTag]:
    """Our own tags, then the verifier's, less those that say again what ours already say."""
    ours = [finding.tag() for finding in findings if finding.kind != "note"]
    known = {tag.category for tag in ours}
    return ours + [tag for tag in declared if tag.category not in known]


# Shape: a JSON Schema, or a list of required keys.

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


# The output: is it there, does it parse, does it have the right shape?

# The codes of a declared output say what a reward may not be given for; those of an inferred one only explain a zero.
_INFERRED_CODES = {"no_output": OUTPUT_MISSING, "unparseable": OUTPUT_UNPARSEABLE}


class OutputCheck(NamedTuple):
    """The two flags of ValidityCheck that speak of the output, and why they are what they are."""

    parseable: bool = True
    schema_valid: bool = True
    findings: tuple[Finding, ...] = ()


def check_output(spec: OutputSpec, file: RawFile | None, reward: float = 0.0) -> OutputCheck:
    """Check the output file. `file` is None when nobody collected it, which counts against no one.

    `reward` is the verifier's: above 0, what is wrong with a file that task.toml does not declare is only a note.
    """
    if spec.path is None:
        return OutputCheck(findings=(note("no output path is known, so there is nothing to parse"),))
    if file is None:
        return OutputCheck(findings=(note(f"{spec.path} was not collected, so its format was not checked"),))
    try:
        findings = _inspect(spec, file)
    except _Unusable as error:
        return _unusable(spec, error.fault, reward)
    if spec.source == "guessed":
        return OutputCheck(findings=tuple(_of_a_guess(finding) for finding in findings))
    return OutputCheck(schema_valid=all(f.kind == "note" for f in findings), findings=tuple(findings))


def _unusable(spec: OutputSpec, fault: Finding, reward: float) -> OutputCheck:
    """What it means that a file is missing or cannot be read.

    "Write a tool that saves its result in X" leaves no X behind, and only the verifier knows that this is right.
    """
    if spec.source == "guessed":
        return OutputCheck(findings=(_of_a_guess(fault),))
    if spec.source == "inferred":
        if reward > 0.0:
            doubt = "task.toml does not declare the path, so the verifier's word counts"
            return OutputCheck(findings=(note(f"{fault.message}; {doubt}"),))
        fault = Finding(_INFERRED_CODES[fault.code], f"{fault.message}; the instruction asks for it")
    return OutputCheck(parseable=False, schema_valid=False, findings=(fault,))


def _of_a_guess(finding: Finding) -> Finding:
    return note(f"{finding.message}; the path is only a guess, so it costs no reward")


class _Unusable(Exception):
    def __init__(self, code: str, message: str) -> None:
        self.fault = Finding(code, message)


def _inspect(spec: OutputSpec, file: RawFile) -> list[Finding]:
    if file.status == "missing":
        raise _Unusable("no_output", f"{spec.path} does not exist")
    if spec.format is None and file.status in ("ok", "directory", "too_large"):
        return [note(f"{spec.path} has no format that can be parsed; it is only known to exist")]
    if file.status == "too_large" or file.size > spec.max_bytes:
        limit = f"at most {spec.max_bytes:,} are read; raise `[output] max_bytes` in task.toml"
        raise _Unusable("unparseable", f"{spec.path}: found {file.size:,} bytes, {limit}")
    if file.status != "ok":
        raise _Unusable("unparseable", f"{spec.path}: found {file.describe()}, expected a regular file")
    try:
        return check_shape(parse(file.data, spec), spec.shape)
    except Unreadable as error:
        raise _Unusable("unparseable", f"{spec.path} is not {spec.format}: {error}") from None


# Gates: findings that cost the reward. They close only on what a task's author declared: the path of the output, or
# that its shape decides.

Gate = Callable[[OutputSpec, OutputCheck], str | None]


def _output_must_parse(_: OutputSpec, check: OutputCheck) -> str | None:
    return None if check.parseable else "the output cannot be used"


def _shape_must_match(spec: OutputSpec, check: OutputCheck) -> str | None:
    # The author asks for this gate by name, so a path that the instruction asks for is sure enough.
    if spec.shape.gate == "report" or check.schema_valid:
        return None
    return "the output has the wrong shape, and this task gives zero for that"


GATES: tuple[Gate, ...] = (_output_must_parse, _shape_must_match)


def apply_gates(reward: float, spec: OutputSpec, check: OutputCheck) -> tuple[float, list[Finding]]:
    """The reward after every gate, and a finding that keeps the verifier's number if one closed on it."""
    reason = next(filter(None, (gate(spec, check) for gate in GATES)), None)
    if reason is None or reward == 0.0:
        return reward, []
    return 0.0, [Finding("reward_gated", f"the verifier gave {reward}, but {reason}; 0.0 counts")]


# Wrong numbers that are right but for their unit or sign, in breakdown entries as the verifier kit writes them.

_TOLERANCE = 0.005
_EXPECTED = ("expected", "reference")
_ACTUAL = ("actual", "found", "got")
_FACTORS = {
    **{10.0**power: f"a factor of 10^{power}" for power in range(1, 13)},
    25.4: "inches and millimetres",
    2.54: "inches and centimetres",
    1 / 0.0254: "inches and metres",
    1 / 0.3048: "feet and metres",
    12.0: "inches and feet",
    1.609344: "miles and kilometres",
    3.6: "m/s and km/h",
    60.0: "minutes",
    3600.0: "hours and seconds",
    86400.0: "days and seconds",
    180 / math.pi: "degrees and radians",
    1 / 0.45359237: "pounds and kilograms",
    9.80665: "kilogram-force and newtons",
    4.184: "calories and joules",
    6.894757293: "psi and kPa",
    6894.757293: "psi and pascals",
    4.4482216153: "pound-force and newtons",
    3.785411784: "US gallons and litres",
}


def classify(breakdown: Mapping[str, Any] | None) -> list[Finding]:
    """A unit_mismatch or sign_error for every scored entry whose number gives itself away."""
    findings = []
    for name, expected, actual in _wrong_numbers(breakdown or {}):
        ratio = actual / expected
        if not math.isfinite(ratio):
            continue
        if math.isclose(ratio, -1.0, rel_tol=_TOLERANCE):
            findings.append(Finding("sign_error", f"{excerpt(name)}: found {actual:g}, expected {expected:g}"))
        elif what := _unit_behind(ratio):
            said = f"{excerpt(name)}: found {actual:g}, expected {expected:g}; they differ by {what}"
            findings.append(Finding("unit_mismatch", said))
    return findings


def _unit_behind(ratio: float) -> str | None:
    size = max(ratio, 1 / ratio) if ratio > 0 else 0.0
    return next((what for factor, what in _FACTORS.items() if math.isclose(size, factor, rel_tol=_TOLERANCE)), None)


def _wrong_numbers(breakdown: Mapping[str, Any]) -> Iterator[tuple[str, float, float]]:
    for name, entry in breakdown.items():
        if not isinstance(entry, dict):
            continue
        expected, actual = _number(entry, _EXPECTED), _number(entry, _ACTUAL)
        score, full = _number(entry, ("score",)), _number(entry, ("max_score",))
        earned_all = score is not None and score >= (1.0 if full is None else full)
        if expected and actual is not None and not earned_all:
            yield name, expected, actual


def _number(entry: Mapping[str, Any], names: tuple[str, ...]) -> float | None:
    for name in names:
        value = entry.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300:
            return float(value)
    return None
