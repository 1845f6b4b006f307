"""The configuration of an image, a JSON document known by its digest, and the platform it is made for."""

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from seatrial.errors import ImageError, UsageError
from seatrial.sandbox.api import ImageConfig
from seatrial.untrusted.json import first_fault

# Platforms: for which machines an image is made, and which of several suits this one.

_ARCHITECTURES = {
    "x86_64": "amd64",
    "x86-64": "amd64",
    "aarch64": "arm64",
    "armhf": "arm",
    "armv7l": "arm",
    "armel": "arm",
    "i386": "386",
    "i686": "386",
}
_SYSTEMS = ("linux", "windows", "darwin", "freebsd")
_WORD = re.compile(r"[a-z0-9_.-]+")
_USUAL_VARIANTS = {"arm64": "v8", "arm": "v7", "amd64": "v1"}
T = TypeVar("T", bound="_HasPlatform")


@dataclass(frozen=True, slots=True)
class Platform:
    """An operating system and a processor, in the words of registries."""

    os: str
    architecture: str
    variant: str = ""

    def __str__(self) -> str:
        return "/".join(filter(None, (self.os, self.architecture, self.variant)))

    @property
    def usual(self) -> "Platform":
        """The same with its variant said, also where it is the one that goes without saying."""
        return Platform(self.os, self.architecture, self.variant or _USUAL_VARIANTS.get(self.architecture, ""))


class _HasPlatform(Protocol):
    @property
    def platform(self) -> Platform | None: ...


def parse_platform(text: str) -> Platform:
    """`linux/arm64/v8`, or shorter: `linux/amd64`, `arm64`, `arm/v7`. Raises UsageError."""
    parts = text.lower().split("/")
    if parts[0] not in _SYSTEMS:
        parts.insert(0, "linux")
    if not 2 <= len(parts) <= 3 or not all(map(_WORD.fullmatch, parts)):
        raise UsageError(f"{text!r} is not a platform; expected something like linux/amd64 or linux/arm64/v8")
    return Platform(parts[0], _ARCHITECTURES.get(parts[1], parts[1]), *parts[2:])


def host_platform() -> Platform:
    machine = os.uname().machine
    return Platform("linux", _ARCHITECTURES.get(machine, machine), "v7" if machine == "armv7l" else "")


def choose_platform(offers: Sequence[T], wanted: Platform) -> T | None:
    """The offer for a platform: of its very variant, else without a variant; None when there is none."""
    exact = [offer for offer in offers if offer.platform and offer.platform.usual == wanted.usual]
    rough = [
        offer
        for offer in offers
        if offer.platform and (offer.platform.os, offer.platform.architecture) == (wanted.os, wanted.architecture)
    ]
    plain = [offer for offer in rough if offer.platform and not offer.platform.variant]
    return next(iter([*exact, *plain, *([] if wanted.variant else rough)]), None)


# The document.


def _none_as_empty(value: object) -> object:
    return () if value is None else value


def _none_as_no_keys(value: object) -> object:
    return {} if value is None else value


Words = Annotated[tuple[str, ...], BeforeValidator(_none_as_empty)]
Table = Annotated[dict[str, Any], BeforeValidator(_none_as_no_keys)]


class _Document(BaseModel):
    """What others wrote: keys we do not know are kept."""

    model_config = ConfigDict(frozen=True, extra="allow", populate_by_name=True, protected_namespaces=())


class Settings(_Document):
    """The part that is about running; the names are ours, the keys Docker's."""

    env: Words = Field(default=(), alias="Env")
    working_dir: str | None = Field(default=None, alias="WorkingDir")
    user: str | None = Field(default=None, alias="User")
    entrypoint: Words = Field(default=(), alias="Entrypoint")
    command: Words = Field(default=(), alias="Cmd")
    shell: Words = Field(default=(), alias="Shell")
    labels: Table = Field(default_factory=dict, alias="Labels")
    exposed_ports: Table = Field(default_factory=dict, alias="ExposedPorts")
    volumes: Table = Field(default_factory=dict, alias="Volumes")
    healthcheck: dict[str, Any] | None = Field(default=None, alias="Healthcheck")
    on_build: Words = Field(default=(), alias="OnBuild")

    @property
    def variables(self) -> dict[str, str]:
        """The environment as names and values."""
        return {name: value for name, _, value in (line.partition("=") for line in self.env) if name}


class Layers(_Document):
    """Which layers make up the root, lowest first, each by the digest of its uncompressed archive."""

    type: str = "layers"
    diff_ids: Words = ()


class ImageDocument(_Document):
    """A whole configuration."""

    architecture: str = ""
    os: str = "linux"
    variant: str = ""
    config: Annotated[Settings, BeforeValidator(_none_as_no_keys)] = Settings()
    rootfs: Layers = Layers()

    @property
    def platform(self) -> Platform:
        """What it runs on."""
        return Platform(self.os, self.architecture, self.variant)

    @property
    def run_config(self) -> ImageConfig:
        """What a sandbox needs to know of it."""
        config = self.config
        return ImageConfig(
            env=config.variables,
            workdir=config.working_dir or None,
            user=config.user or None,
            entrypoint=config.entrypoint,
            command=config.command,
        )


def read_document(raw: bytes, name: str) -> ImageDocument:
    """The configuration in some JSON. Raises ImageError that names the image."""
    try:
        return ImageDocument.model_validate_json(raw)
    except ValidationError as error:
        fault = first_fault(error, "the document")
        raise ImageError(f"{name}: its configuration cannot be read: {fault}") from error


def write_document(document: ImageDocument) -> bytes:
    """The JSON of a configuration, the same bytes for equal ones."""
    return document.model_dump_json(by_alias=True, exclude_unset=True).encode()


def digest_of(raw: bytes) -> str:
    """The digest by which some bytes are known."""
    return f"sha256:{hashlib.sha256(raw).hexdigest()}"


def describe_platform(document: Mapping[str, Any]) -> Platform:
    """The platform in an entry of an index."""
    return Platform(*(str(document.get(key) or "") for key in ("os", "architecture", "variant")))


def matches_digest(raw: bytes, digest: str) -> bool:
    """Whether some bytes are what a digest says."""
    algorithm, _, expected = digest.partition(":")
    return hashlib.new(algorithm, raw).hexdigest() == expected
