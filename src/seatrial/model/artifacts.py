"""What was found in a sandbox after verification, before anyone believed a byte of it.

Readers of the outside world fill these in; scoring only looks. They live in memory and are never stored.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

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
