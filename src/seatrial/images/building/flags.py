"""The flags of a Dockerfile's instructions (`--from=…`): which there are, and what their values may be."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from seatrial.images.building.words import WordError

Kind = Literal["one", "many", "yes"]

FLAGS: dict[str, dict[str, Kind]] = {
    "FROM": {"platform": "one"},
    "RUN": {"mount": "many", "network": "one"},
    "COPY": {"from": "one", "chown": "one", "chmod": "one", "exclude": "many", "link": "yes"},
    "ADD": {"chown": "one", "chmod": "one", "exclude": "many", "link": "yes"},
    "HEALTHCHECK": dict.fromkeys(("interval", "timeout", "start-period", "start-interval", "retries"), "one"),
}
"""For each instruction that has any: a flag takes one value, may be given many times, or only says yes."""

_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")
_NANOSECONDS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags an instruction was given."""

    single: Mapping[str, str] = field(default_factory=dict)
    repeated: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def one(self, name: str) -> str | None:
        """The value of a flag, None when it was not given."""
        return self.single.get(name)

    def all(self, name: str) -> tuple[str, ...]:
        """The values of a flag that may be repeated."""
        return self.repeated.get(name, ())

    def network(self) -> Literal["default", "none"]:
        """What `RUN --network` says. Raises WordError: whether to use the host's is not for a Dockerfile to say."""
        value = self.single.get("network", "default")
        if value not in ("default", "none"):
            raise WordError(f"--network takes default or none, not {value!r}")
        return "none" if value == "none" else "default"

    def cache_mounts(self) -> tuple[str, ...]:
        """Where `RUN --mount` wants directories that are empty before and gone after. Raises WordError."""
        return tuple(_cache_target(mount) for mount in self.all("mount"))


def read_flags(words: Sequence[str], known: Mapping[str, Kind]) -> Flags:
    """The flags of an instruction that knows these. Raises WordError."""
    single: dict[str, str] = {}
    repeated: dict[str, tuple[str, ...]] = {}
    for word in words:
        name, equals, value = word.removeprefix("--").partition("=")
        kind = known.get(name)
        if kind is None:
            have = f"known are {', '.join(f'--{flag}' for flag in known)}" if known else "it takes none"
            raise WordError(f"unsupported flag --{name}; {have}; or build with --builder docker")
        if kind != "yes" and not equals:
            raise WordError(f"--{name} needs a value: --{name}=…")
        if name in single:
            raise WordError(f"--{name} is given twice")
        if kind == "many":
            repeated[name] = (*repeated.get(name, ()), value)
        else:
            single[name] = value
    return Flags(single, repeated)


def _cache_target(mount: str) -> str:
    options = dict(part.partition("=")[::2] for part in mount.split(","))
    target = options.get("target") or options.get("dst") or options.get("destination")
    if options.get("type") not in ("cache", "tmpfs") or "from" in options or not target or not target.strip("/."):
        raise WordError(
            f"unsupported --mount={mount}; only type=cache and type=tmpfs with a target are; both start empty"
        )
    return target


def parse_duration(text: str) -> int:
    """Nanoseconds in a text such as `1m30s`. Raises WordError."""
    parts = list(_DURATION.finditer(text))
    if not parts or "".join(part[0] for part in parts) != text:
        raise WordError(f"{text!r} is no duration; expected something like 30s or 1m30s")
    return int(sum(float(part[1]) * _NANOSECONDS[part[2]] for part in parts))
