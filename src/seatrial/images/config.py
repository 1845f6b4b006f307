"""The configuration of an image, as registries and archives have it: a JSON document by whose digest it is known."""

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from seatrial.errors import ImageError
from seatrial.images.platforms import Platform
from seatrial.sandbox.api import ImageConfig


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
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the document"
        raise ImageError(f"{name}: its configuration cannot be read: {where}: {first['msg']}") from error


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
