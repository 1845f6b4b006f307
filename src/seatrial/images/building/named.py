"""Which images a Dockerfile names, so that a stranger's can be refused before anybody builds it.

Only the words that name images are read. What else a file says may be beyond us and still fine for a daemon.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from seatrial.errors import BuildError
from seatrial.images.building.arguments import Arguments
from seatrial.images.building.dockerfile import Dockerfile, Instruction, parse_dockerfile
from seatrial.images.building.instructions import Arg, read_instructions
from seatrial.images.building.words import WordError, expand
from seatrial.images.platforms import host_platform

_MAX_BYTES = 2**20
_FROM = re.compile(rb"^[ \t]*FROM[ \t]+(\S+)[ \t]*\r?$", re.MULTILINE | re.IGNORECASE)
_PLAIN = re.compile(rb"[A-Za-z0-9][\w./:-]*")
_ANY_FROM = re.compile(rb"^[ \t]*FROM\b", re.MULTILINE | re.IGNORECASE)
_DIVIDED = re.compile(rb"^[ \t]*F(?:RO?)?\\", re.MULTILINE | re.IGNORECASE)  # the keyword, among lines


def images_named_in(path: Path) -> list[tuple[str, str]]:
    """Every image that a Dockerfile builds on or copies from, with the place that names it; its own stages are none.

    Raises BuildError for what is no Dockerfile.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise BuildError(f"{path}: it cannot be read: {error.strerror}") from error
    if len(data) > _MAX_BYTES:
        raise BuildError(f"{path}: it has more than {_MAX_BYTES:,} bytes; is it a Dockerfile?")
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
            for name in _origins(instruction):
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


def _origins(instruction: Instruction) -> Iterator[str]:
    """What `--from=NAME` and `--mount=…,from=NAME` name."""
    for flag in instruction.flags:
        option, _, value = flag.partition("=")
        settings = value.split(",") if option == "--mount" else [f"from={value}"] if option == "--from" else []
        for setting in settings:
            key, _, name = setting.strip().partition("=")
            if key == "from" and name:
                yield name
