"""What ARG and ENV make of variables: who wins, what a stage inherits, and what is known without being declared."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from seatrial.images.building.draft import ConfigDraft
from seatrial.images.building.instructions import Arg
from seatrial.images.building.words import expand
from seatrial.images.platforms import Platform, host_platform

# Anybody may give them and nobody has to declare them; our sandboxes have a way out of their own.
_PROXIES = frozenset(f"{name}_PROXY" for name in ("HTTP", "HTTPS", "FTP", "NO", "ALL"))


@dataclass(slots=True)
class Arguments:
    """The arguments of a build: those that were given, and the ones declared before the first stage."""

    given: Mapping[str, str]
    platform: Platform
    escape: str
    declared: dict[str, str] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Platforms are known without being declared."""
        for prefix, platform in (("TARGET", self.platform), ("BUILD", host_platform())):
            parts = {"PLATFORM": str(platform), "OS": platform.os, "ARCH": platform.architecture}
            self.declared |= {f"{prefix}{key}": value for key, value in parts.items()}
            self.declared[f"{prefix}VARIANT"] = platform.variant

    def declare_globally(self, arg: Arg) -> None:
        """ARG before the first FROM. Raises WordError."""
        for name, default in arg.declared:
            value = self._value(name, default, self.declared)
            if value is not None:
                self.declared[name] = value

    def declare(self, arg: Arg, known: dict[str, str], draft: ConfigDraft) -> None:
        """ARG in a stage, whose arguments `known` are. Raises WordError."""
        for name, default in arg.declared:
            value = self._value(name, default, {**known, **draft.env})
            value = self.declared.get(name) if value is None else value
            if value is not None:
                known[name] = value

    def _value(self, name: str, default: str | None, variables: Mapping[str, str]) -> str | None:
        if name in self.given:
            self.used.add(name)
            return self.given[name]
        return None if default is None else expand(default, variables, escape=self.escape)

    def unused(self) -> list[str]:
        """Which of the given arguments nobody has asked for."""
        return sorted(name for name in self.given if name not in self.used and name.upper() not in _PROXIES)
