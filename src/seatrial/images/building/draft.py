"""The configuration of an image that is being built: starts as that of its base, and is changed by instructions."""

import posixpath
import re
from collections.abc import Sequence
from typing import Any

from seatrial.images.building.instructions import BuildCommand, Healthcheck
from seatrial.images.building.words import WordError
from seatrial.images.config import ImageDocument
from seatrial.images.platforms import Platform
from seatrial.sandbox.api import DEFAULT_PATH

_SHELL = ("/bin/sh", "-c")
_PORT = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?(?:/(tcp|udp|sctp))?", re.IGNORECASE)
_TIMES = {
    "interval": "Interval",
    "timeout": "Timeout",
    "start-period": "StartPeriod",
    "start-interval": "StartInterval",
    "retries": "Retries",
}


class ConfigDraft:
    """Docker's document, key by key; what it has that we do not know of stays."""

    def __init__(self, base: ImageDocument, platform: Platform) -> None:
        whole = base.model_dump(mode="json", by_alias=True, exclude_unset=True)
        self._config: dict[str, Any] = {key: value for key, value in (whole.pop("config", None) or {}).items() if value}
        for key in ("history", "created", "container", "container_config", "id", "parent", "rootfs"):
            whole.pop(key, None)  # they tell how the base was made
        self._config.pop("Image", None)
        self._whole = {"architecture": platform.architecture, "os": platform.os, **whole}
        self._own_command = False
        self.env = dict(base.config.variables)
        if "PATH" not in self.env:
            self.env = {"PATH": DEFAULT_PATH, **self.env}
        self.triggers: tuple[str, ...] = tuple(self._config.pop("OnBuild", ()))

    @property
    def workdir(self) -> str:
        """Where commands start."""
        return str(self._config.get("WorkingDir") or "/")

    @property
    def user(self) -> str | None:
        """Who runs commands; None for root."""
        return self._config.get("User") or None

    @property
    def shell(self) -> tuple[str, ...]:
        """What runs command lines."""
        return tuple(self._config.get("Shell") or _SHELL)

    def set_workdir(self, path: str) -> str:
        """Change the directory, from where it was; returns the new one."""
        joined = posixpath.normpath(posixpath.join("/", self.workdir, path))
        self._config["WorkingDir"] = "/" + joined.lstrip("/")
        return self.workdir

    def set_word(self, kind: str, word: str) -> None:
        """USER, STOPSIGNAL and MAINTAINER."""
        if kind == "MAINTAINER":
            self._whole["author"] = word
        else:
            self._config[{"USER": "User", "STOPSIGNAL": "StopSignal"}[kind]] = word

    def start(self, kind: str, command: BuildCommand) -> None:
        """CMD, ENTRYPOINT and SHELL. An entry point makes the command of the base meaningless."""
        words = list(command.words if kind == "SHELL" else command.with_shell(self.shell))
        self._config[{"CMD": "Cmd", "ENTRYPOINT": "Entrypoint", "SHELL": "Shell"}[kind]] = words
        if kind == "CMD":
            self._own_command = True
        elif kind == "ENTRYPOINT" and not self._own_command:
            self._config.pop("Cmd", None)

    def label(self, name: str, value: str) -> None:
        """Add a label."""
        self._config.setdefault("Labels", {})[name] = value

    def expose(self, words: Sequence[str]) -> None:
        """Add ports. Raises WordError."""
        for word in words:
            found = _PORT.fullmatch(word)
            first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
            if not found or not 0 < first <= last < 2**16:
                raise WordError(f"{word!r} is no port; expected something like 80, 53/udp or 8000-8010/tcp")
            protocol = (found[3] or "tcp").lower()
            ports: dict[str, dict[str, str]] = {f"{port}/{protocol}": {} for port in range(first, last + 1)}
            self._config.setdefault("ExposedPorts", {}).update(ports)

    def add_volumes(self, paths: Sequence[str]) -> None:
        """Add directories that are meant to outlive a container. Raises WordError."""
        if not all(path.strip() for path in paths):
            raise WordError("a volume needs a path")
        self._config.setdefault("Volumes", {}).update({path: {} for path in paths})

    def check_health(self, check: Healthcheck) -> None:
        """Set or remove the health check."""
        if check.command is None:
            self._config["Healthcheck"] = {"Test": ["NONE"]}
            return
        test = ["CMD-SHELL" if check.command.form == "shell" else "CMD", *check.command.words]
        self._config["Healthcheck"] = {"Test": test, **{_TIMES[name]: value for name, value in check.times if value}}

    def trigger(self, text: str) -> None:
        """Add an instruction for whoever builds on top."""
        self._config.setdefault("OnBuild", []).append(text)

    def document(self, layers: Sequence[str]) -> ImageDocument:
        """The configuration as it is now, over these layers."""
        config = {**self._config, "Env": [f"{name}={value}" for name, value in self.env.items()]}
        rootfs = {"type": "layers", "diff_ids": list(layers)}
        return ImageDocument.model_validate({**self._whole, "config": config, "rootfs": rootfs})
