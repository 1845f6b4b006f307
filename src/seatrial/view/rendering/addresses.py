"""Where a browser finds the bytes of a file that a page shows."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class RawAddress:
    """The address of a file's bytes.

    A viewer that runs serves them so that they can do no harm; in an export, only pictures made of pixels can do none.
    """

    href: str
    kind: Literal["served", "exported"] = "served"
