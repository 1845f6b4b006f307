"""The agent's output under the gates: is it there, does it parse, does it have the right shape?"""

from dataclasses import dataclass

from seatrial.model.artifacts import RawFile
from seatrial.model.output import OutputSpec
from seatrial.scoring.findings import Finding, note
from seatrial.scoring.formats import parse
from seatrial.scoring.shape import check_shape
from seatrial.scoring.text import Unreadable


@dataclass(frozen=True, slots=True)
class OutputCheck:
    """The two flags of ValidityCheck that speak of the output, and why they are what they are."""

    parseable: bool = True
    schema_valid: bool = True
    findings: tuple[Finding, ...] = ()


def check_output(spec: OutputSpec, file: RawFile | None) -> OutputCheck:
    """Check the output file. `file` is None when nobody collected it, which counts against no one."""
    if spec.path is None:
        return OutputCheck(findings=(note("no output path is known, so there is nothing to parse"),))
    if file is None:
        return OutputCheck(findings=(note(f"{spec.path} was not collected, so its format was not checked"),))
    try:
        findings = _inspect(spec, file)
    except _Unusable as error:
        if spec.source == "guessed":
            doubt = "the path is only a guess, so this is not held against anyone"
            return OutputCheck(findings=(note(f"{error.fault.message}; {doubt}"),))
        return OutputCheck(parseable=False, schema_valid=False, findings=(error.fault,))
    return OutputCheck(schema_valid=all(f.kind == "note" for f in findings), findings=tuple(findings))


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
