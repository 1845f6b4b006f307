"""The agent's output under the gates: is it there, does it parse, does it have the right shape?"""

from dataclasses import dataclass

from seatrial.model.artifacts import RawFile
from seatrial.model.evaluation import OUTPUT_MISSING, OUTPUT_UNPARSEABLE
from seatrial.model.output import OutputSpec
from seatrial.scoring.findings import Finding, note
from seatrial.scoring.formats import parse
from seatrial.scoring.shape import check_shape
from seatrial.scoring.text import Unreadable

# The codes of a declared output say what a reward may not be given for; those of an inferred one only explain a zero.
_INFERRED_CODES = {"no_output": OUTPUT_MISSING, "unparseable": OUTPUT_UNPARSEABLE}


@dataclass(frozen=True, slots=True)
class OutputCheck:
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
