"""What a registry says an image is made of: indexes by platform, manifests, configurations, all checked by digest."""

from dataclasses import dataclass
from typing import Any

import orjson

from seatrial.errors import ImageError
from seatrial.images.access import Access
from seatrial.images.config import ImageDocument, describe_platform, digest_of, matches_digest, read_document
from seatrial.images.platforms import Platform, choose_platform
from seatrial.images.reference import is_digest

INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_ACCEPT = {"Accept": ", ".join((*INDEXES, *MANIFESTS))}
_MAX_MANIFEST = 8 * 2**20
_MAX_CONFIG = 8 * 2**20
_MAX_LAYERS = 500


@dataclass(frozen=True, slots=True)
class Descriptor:
    """Some content, by its digest and size; in an index, for a platform."""

    digest: str
    size: int
    media_type: str = ""
    platform: Platform | None = None


@dataclass(frozen=True, slots=True)
class ImageManifest:
    """What an image is made of."""

    config: Descriptor
    layers: tuple[Descriptor, ...]


@dataclass(frozen=True, slots=True)
class Resolved:
    """An image as a registry has it: by the digest it was found under, with its configuration as written."""

    manifest_digest: str
    raw_config: bytes
    document: ImageDocument
    layers: tuple[Descriptor, ...]


async def resolve(access: Access, wanted: str, platform: Platform) -> Resolved:
    """The image a tag or digest means for a platform. Raises ImageError."""
    raw, digest = await _fetch_manifest(access, wanted)
    top = digest
    table = parse_table(raw)
    if is_index(table):
        entry = choose_entry(table, platform)
        raw, _ = await _fetch_manifest(access, entry.digest)
        table = parse_table(raw)
    manifest = read_manifest(table)
    raw_config, _, _ = await access.read(f"blobs/{manifest.config.digest}", _MAX_CONFIG)
    check_digest(raw_config, manifest.config.digest)
    document = read_document(raw_config, manifest.config.digest)
    check_layers(document, manifest)
    return Resolved(top, raw_config, document, manifest.layers)


async def _fetch_manifest(access: Access, wanted: str) -> tuple[bytes, str]:
    raw, _, told = await access.read(f"manifests/{wanted}", _MAX_MANIFEST, _ACCEPT)
    expected = wanted if is_digest(wanted) else told
    if is_digest(expected):
        check_digest(raw, expected)
        return raw, expected
    return raw, digest_of(raw)


def check_digest(raw: bytes, digest: str) -> None:
    """Raise ImageError for content that is not what its digest says."""
    if not matches_digest(raw, digest):
        raise ImageError(
            f"what came for {digest} has another content: {digest_of(raw)}; somebody changed it on the way"
        )


def check_layers(document: ImageDocument, manifest: ImageManifest) -> None:
    """Raise ImageError when configuration and manifest do not speak of the same layers."""
    expected, found = len(document.rootfs.diff_ids), len(manifest.layers)
    if expected != found:
        raise ImageError(f"its configuration has {expected} layers and its manifest {found}: it is no root file system")


def is_index(table: dict[str, Any]) -> bool:
    """Whether a document lists images for several platforms."""
    return isinstance(table.get("manifests"), list)


def choose_entry(table: dict[str, Any], platform: Platform) -> Descriptor:
    """The image for a platform in an index. Raises ImageError naming the platforms there are."""
    entries = [read_descriptor(entry) for entry in table["manifests"]]
    chosen = choose_platform(entries, platform)
    if chosen is None and len(entries) == 1 and entries[0].platform is None:
        return entries[0]
    if chosen is None:
        offered = ", ".join(sorted({str(entry.platform) for entry in entries if entry.platform})) or "none"
        raise ImageError(f"there is no image for {platform}; there are: {offered}")
    return chosen


def parse_table(raw: bytes) -> dict[str, Any]:
    """A JSON object. Raises ImageError."""
    try:
        table = orjson.loads(raw)
    except ValueError as error:
        raise ImageError(f"its manifest is not JSON: {error}") from error
    if not isinstance(table, dict):
        raise ImageError("its manifest is not a JSON object")
    return table


def read_manifest(table: dict[str, Any]) -> ImageManifest:
    """A manifest of one image. Raises ImageError."""
    if table.get("schemaVersion") == 1:
        raise ImageError("its manifest has the old schema 1, which no tool writes any more; push the image again")
    layers = table.get("layers")
    if not isinstance(layers, list) or not isinstance(table.get("config"), dict) or len(layers) > _MAX_LAYERS:
        raise ImageError("its manifest has no configuration or no list of layers: it is not an image")
    return ImageManifest(read_descriptor(table["config"]), tuple(read_descriptor(layer) for layer in layers))


def read_descriptor(entry: Any) -> Descriptor:
    """A descriptor. Raises ImageError."""
    match entry:
        case {"digest": str(digest), "size": int(size)} if is_digest(digest) and size >= 0:
            platform = entry.get("platform")
            described = describe_platform(platform) if isinstance(platform, dict) else None
            return Descriptor(digest, size, str(entry.get("mediaType") or ""), described)
        case _:
            raise ImageError("its manifest names something without a usable digest and size")
