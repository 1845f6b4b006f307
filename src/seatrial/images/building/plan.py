"""What a build needs to know before and between its steps: stages, configuration, arguments, and the images it names.

Pure, but for `images_named_in`, which reads a Dockerfile. `steps.py` carries the steps out.
"""

import os
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seatrial.errors import BuildError
from seatrial.images.building.instructions import Arg, BuildCommand, Copy, From, Healthcheck, Step, read_instructions
from seatrial.images.config import ImageDocument, Platform, host_platform
from seatrial.sandbox.api import DEFAULT_PATH
from seatrial.tasks.dockerfile import Dockerfile, Instruction, WordError, expand, parse_dockerfile
from seatrial.untrusted.files import READ, FileTooLargeError, read_with_status

# Stages: which a Dockerfile has, and which of them a build needs.


@dataclass(frozen=True, slots=True)
class StagePlan:
    """A stage: its FROM, and the steps behind it."""

    number: int
    start: Step
    base: From
    steps: tuple[Step, ...]


def split_stages(steps: Sequence[Step]) -> tuple[list[Arg], list[StagePlan]]:
    """The arguments before the first stage, and the stages."""
    starts = [index for index, step in enumerate(steps) if isinstance(step.what, From)]
    before = [step.what for step in steps[: starts[0]] if isinstance(step.what, Arg)]
    stages: list[StagePlan] = []
    for number, (start, end) in enumerate(zip(starts, [*starts[1:], len(steps)], strict=True)):
        what = steps[start].what
        assert isinstance(what, From)  # noqa: S101 - as just selected
        stages.append(StagePlan(number, steps[start], what, tuple(steps[start + 1 : end])))
    return before, stages


def find_target(stages: Sequence[StagePlan], target: str | None) -> StagePlan:
    """The stage to build: the last one, or the one of that name or number. Raises WordError."""
    if target is None:
        return stages[-1]
    found = find_stage(stages, target)
    if found is None:
        names = ", ".join(stage.base.name or str(stage.number) for stage in stages)
        raise WordError(f"there is no stage {target!r}; there are {names}")
    return found


def find_stage(stages: Sequence[StagePlan], word: str) -> StagePlan | None:
    """The latest of some stages that has this name, or the one of that number; None when the word means none."""
    named = [stage for stage in stages if stage.base.name == word.lower()]
    numbered = [stage for stage in stages if str(stage.number) == word]
    return next(iter([*reversed(named), *numbered]), None)


def needed_stages(stages: Sequence[StagePlan], bases: Sequence[str], target: StagePlan) -> list[StagePlan]:
    """The target with all it is built on or copied from, in order; `bases` are what the FROMs say in the end."""
    needed: set[int] = set()
    pending = [target]
    while pending:
        stage = pending.pop()
        if stage.number in needed:
            continue
        needed.add(stage.number)
        words = [bases[stage.number], *(_origins(stage))]
        pending += [found for word in words if (found := find_stage(stages[: stage.number], word))]
    return [stages[number] for number in sorted(needed)]


def _origins(stage: StagePlan) -> list[str]:
    return [step.what.origin for step in stage.steps if isinstance(step.what, Copy) and step.what.origin]


# The configuration of the image: starts as that of its base, and is changed by instructions.

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


# Arguments: what ARG and ENV make of variables, who wins, what a stage inherits, what is known without being declared.

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


# Images that a Dockerfile names, so that a stranger's can be refused before anybody builds it. Only the words that name
# images are read: what else a file says may be unknown to us and still fine for a daemon.

_MAX_BYTES = 2**20
_FROM = re.compile(rb"^[ \t]*FROM[ \t]+(\S+)[ \t]*\r?$", re.MULTILINE | re.IGNORECASE)
_PLAIN = re.compile(rb"[A-Za-z0-9][\w./:-]*")
_ANY_FROM = re.compile(rb"^[ \t]*FROM\b", re.MULTILINE | re.IGNORECASE)
_DIVIDED = re.compile(rb"^[ \t]*F(?:RO?)?\\", re.MULTILINE | re.IGNORECASE)  # the keyword, among lines


def images_named_in(path: Path | str) -> list[tuple[str, str]]:
    """Every image that a Dockerfile builds on or copies from, with the place that names it; its own stages are none.

    Raises BuildError for what is no Dockerfile.
    """
    try:
        data = read_with_status(path, _MAX_BYTES, READ & ~os.O_NOFOLLOW)[0]  # links within a task are followed
    except FileTooLargeError as error:
        raise BuildError(f"{path}: it has more than {_MAX_BYTES:,} bytes; is it a Dockerfile?") from error
    except OSError as error:
        raise BuildError(f"{path}: it cannot be read: {error.strerror}") from error
    if plain := _only_base(data):
        return [(f"{path}:{plain[0]}: FROM", plain[1])]
    return list(named_images(parse_dockerfile(data.decode("utf-8", "replace"), str(path))))


def _only_base(data: bytes) -> tuple[int, str] | None:
    """The line and the image of a Dockerfile that names no other, in one plain word; None for any other.

    Most are like that, and a job may have thousands of them: reading all of each takes ten times as long.
    """
    lowered = data.lower()
    if (
        any(word in lowered for word in (b"from=", b"escape", b"<<"))
        or _DIVIDED.search(data)
        or len(_ANY_FROM.findall(data)) != 1
    ):
        return None
    match = _FROM.search(data)
    if match is None or not _PLAIN.fullmatch(match[1]):
        return None
    return data.count(b"\n", 0, match.start()) + 1, match[1].decode()


def named_images(dockerfile: Dockerfile) -> Iterator[tuple[str, str]]:
    """The images of a Dockerfile that has been divided already, with their places."""
    arguments = Arguments({}, host_platform(), dockerfile.escape)
    stages: set[str] = set()
    count = 0
    for instruction in dockerfile.instructions:
        place = f"{dockerfile.name}:{instruction.line}: {instruction.keyword}"
        if instruction.keyword == "FROM":
            name, stage = _base(instruction, arguments)
            if name and name.lower() not in stages:
                yield place, name
            stages |= {stage.lower(), str(count)} - {""}
            count += 1
        elif instruction.keyword == "ARG" and not count:
            _declare(dockerfile, instruction, arguments)
        else:
            for name in _origins_of(instruction):
                if name.lower() not in stages:
                    yield place, name


def _base(instruction: Instruction, arguments: Arguments) -> tuple[str, str]:
    """The image of a FROM, and what the stage is called; either may be empty."""
    word, *more = instruction.arguments.split() or [""]
    try:
        name = expand(word, arguments.declared, escape=arguments.escape)
    except WordError:  # the build says what is wrong
        name = ""
    return name, more[1] if len(more) == 2 else ""


def _declare(dockerfile: Dockerfile, instruction: Instruction, arguments: Arguments) -> None:
    try:
        for step in read_instructions(Dockerfile(dockerfile.name, (instruction,), dockerfile.escape)):
            if isinstance(step.what, Arg):
                arguments.declare_globally(step.what)
    except (BuildError, WordError):  # as above
        return


def _origins_of(instruction: Instruction) -> Iterator[str]:
    """What `--from=NAME` and `--mount=…,from=NAME` name."""
    for flag in instruction.flags:
        option, _, value = flag.partition("=")
        settings = value.split(",") if option == "--mount" else [f"from={value}"] if option == "--from" else []
        for setting in settings:
            key, _, name = setting.strip().partition("=")
            if key == "from" and name:
                yield name
