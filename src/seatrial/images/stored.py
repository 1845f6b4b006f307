"""What the store knows about what it has."""

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from seatrial.images.config import ImageDocument
from seatrial.model.base import StrictModel

T = TypeVar("T", bound=StrictModel)


class About(StrictModel):
    """What is known about a layer: how large it is, what could not be kept, whether it hides all layers below."""

    size: int
    entries: int
    devices: int = 0
    squashed: int = 0
    hides_below: bool = False


class NamedImage(StrictModel):
    """What a name means: an image, and the digest under which the registry has it."""

    reference: str
    image: str
    manifest: str | None = None


@dataclass(frozen=True, slots=True)
class StoredLayer:
    """A layer that is there."""

    digest: str
    path: Path
    about: About


@dataclass(frozen=True, slots=True)
class StoredImage:
    """An image that is there; `names` are all it has in a list, else the one it was found by."""

    digest: str
    document: ImageDocument
    names: tuple[NamedImage, ...]
    used_at: float

    @property
    def layers(self) -> tuple[str, ...]:
        """The digests of its layers, lowest first."""
        return self.document.rootfs.diff_ids


def read_stored(kind: type[T], path: Path) -> T | None:
    """What a file of the store says, None when it is not there or was not written to its end."""
    try:
        return kind.model_validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None
