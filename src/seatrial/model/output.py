"""The output that a task expects, in which format and shape, and the files that were found after the work."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from pydantic import Field

from seatrial.model.base import JsonObject, StrictModel, new

OutputFormat = Literal[
    "json", "jsonl", "csv", "tsv", "md", "yaml", "toml", "xml", "html", "txt",
    "pdf", "png", "xlsx", "docx", "zip", "ipynb",
]  # fmt: skip
SchemaGate = Literal["report", "zero"]
RewardPolicy = Literal["declared", "text_first"]
"""`declared`: the file VerifierSpec names, then the others. `text_first`: reward.txt, then reward.json."""

VerdictSource = Literal["reward", "exit_status"]
"""By what a verifier speaks: only by the reward it writes, or by its exit status where it writes none."""

VERDICT_SOURCES: tuple[VerdictSource, ...] = get_args(VerdictSource)
SCHEMA_GATES: tuple[SchemaGate, ...] = get_args(SchemaGate)
OUTPUT_FORMATS: tuple[OutputFormat, ...] = get_args(OutputFormat)

FORMAT_BY_SUFFIX: dict[str, OutputFormat] = {
    **{f".{name}": name for name in OUTPUT_FORMATS},
    ".markdown": "md",
    ".ndjson": "jsonl",
    ".yml": "yaml",
    ".htm": "html",
    ".text": "txt",
    ".log": "txt",
}


def format_of(path: str) -> OutputFormat | None:
    """The format a path's suffix stands for, None when it stands for none we read."""
    stem, dot, suffix = path.rstrip("/").rpartition(".")
    # Without a stem the name is that of a hidden file, which has no suffix.
    return FORMAT_BY_SUFFIX.get(f".{suffix.lower()}") if dot and stem and stem[-1] != "/" else None


class VerifierSpec(StrictModel):
    """What the verifier runs and where it leaves its verdict. An empty `expected_output_path` means none is known."""

    script: str
    expected_output_path: str
    reward_path: str
    details_path: str | None = None


class PathCandidate(StrictModel):
    """A path the instruction mentions, and what its sentence makes of it."""

    path: str
    role: Literal["output", "mentioned", "input"]


class ShapeSpec(StrictModel):
    """What a parsed output must look like; `gate` says whether a mismatch is only reported or costs the reward."""

    source: Literal["schema", "required_keys", "example", "none"] = "none"
    json_schema: JsonObject | None = None
    required_keys: tuple[str, ...] = ()
    gate: SchemaGate = "report"


class OutputSpec(StrictModel):
    """The expected output.

    `source` says how sure the path is: `declared` in task.toml, which alone makes a missing file cost the reward;
    `inferred` from a sentence that asks for it; `guessed` from a mere mention; `none`.
    """

    path: str | None = None
    format: OutputFormat | None = None
    source: Literal["declared", "inferred", "guessed", "none"] = "none"
    reason: str = "no output path is declared or named in the instruction"
    candidates: tuple[PathCandidate, ...] = ()
    ends_in_json_block: bool = False
    max_bytes: int = Field(default=64 * 2**20, gt=0)
    shape: ShapeSpec = new(ShapeSpec)


# What was found, before anyone believed a byte of it. Readers fill these in, scoring only looks; they are never stored.

FileStatus = Literal["ok", "missing", "too_large", "directory", "symlink", "special", "unreadable"]

REWARD_JSON = "reward.json"
REWARD_TXT = "reward.txt"
DETAILS_NAMES = ("details.json", "reward-details.json")
CTRF_JSON = "ctrf.json"
VERIFIER_FILES = (REWARD_JSON, REWARD_TXT, *DETAILS_NAMES, CTRF_JSON)


@dataclass(frozen=True, slots=True)
class RawFile:
    """One file as found: its bytes when it is a readable regular file within the limit, else what it was instead.

    `leads_to` is where links on its path end, if that is the verifier's own, or something else to each process.
    """

    name: str
    status: FileStatus
    data: bytes = b""
    size: int = 0
    reason: str = ""
    leads_to: str = ""

    def describe(self) -> str:
        """What stands where a file was expected, for an error message."""
        found = {
            "ok": f"a file of {self.size:,} bytes",
            "missing": "nothing",
            "too_large": f"a file of {self.size:,} bytes, more than is read",
            "directory": "a directory",
            "symlink": "a symbolic link",
            "special": "a device, socket or pipe",
            "unreadable": "a file that cannot be read",
        }[self.status]
        return f"{found} ({self.reason})" if self.reason else found


@dataclass(frozen=True, slots=True)
class RawArtifacts:
    """The verifier's files by name, the agent's output (None when nobody looked for it), and how the verifier ended.

    What a verifier that ran out of time had written by then is not its verdict.
    """

    files: Mapping[str, RawFile] = field(default_factory=dict)
    output: RawFile | None = None
    verifier_exit_code: int | None = None
    verifier_timed_out: bool = False

    def file(self, name: str) -> RawFile:
        """The file of that name; a missing one is an answer too."""
        return self.files.get(name) or RawFile(name, "missing")
