"""For which machines an image is made, and which of several suits this one."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from seatrial.errors import UsageError

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
    """The platform of this machine."""
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
