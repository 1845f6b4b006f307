"""Where a job or a trial comes from that another program ran: which format, which version of it, which file.

Nothing here names a place on a disk: an imported job says the same wherever it was imported.
"""

from typing import Annotated, Literal

from pydantic import Field

from seatrial.model.base import JsonObject, NonNegativeInt, Sha256, StrictModel

SourceFormat = Literal["verifiers", "harbor"]

IMPORTED_BACKEND = "imported"
"""What stands for the backend of a trial that did not run here."""

UNKNOWN = "unknown"
"""What stands for an image or a network that the source does not name."""


class ImportedFrom(StrictModel):
    """What a trial was imported from: a file, by its name in the source and its digest, and a line of it.

    `version` is that of the program that wrote it, as far as it says. `stated` is what the source says of the trial
    and a record has no field for, as it was found.
    """

    format: SourceFormat
    version: str | None = None
    file: str
    line: Annotated[int, Field(ge=1)] | None = None
    sha256: Sha256
    stated: JsonObject | None = None


class ImportedJob(StrictModel):
    """What a job was imported from. `sha256` is of the file with its results, or of the digests of all of them.

    `stored_means` are the means that the source gives itself, by the titles of the agents; they may count what is in no
    mean here. `skipped` is how much of the source could not be read. A `reward_range` is what was mapped onto 0 to 1.
    """

    format: SourceFormat
    version: str | None = None
    sha256: Sha256
    stored_means: dict[str, float] = Field(default_factory=dict)
    skipped: NonNegativeInt = 0
    reward_range: tuple[float, float] | None = None
