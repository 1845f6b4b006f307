"""What people write behind options, as values: lengths of time, sizes, files, images, variables."""

import os
import re

import click
from pydantic import ValidationError

from seatrial.cli.job_images import whole_image
from seatrial.model.job import AgentFiles

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_ENDLESS = 1e9
_MEBIBYTES = {"M": 1, "G": 2**10, "T": 2**20}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def parse_duration(_: click.Context, option: click.Parameter, value: str | None) -> float | None:
    """A length of time such as 90, 45s, 30m, 1h30m or 2d as seconds. Raises click's BadParameter for anything else."""
    if value is None:
        return None
    parts = re.findall(r"(\d+(?:\.\d+)?)([smhd]?)", value, flags=re.ASCII)
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != value or not 0 < seconds < _ENDLESS:
        raise click.BadParameter(f"{value!r} is no length of time; write 90, 45s, 30m, 1h30m or 2d", param=option)
    return seconds


def parse_image_map(_: click.Context, option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Words like `python:3.11-slim=host` as a map. Raises click's BadParameter for anything else."""
    pairs = [value.partition("=") for value in values]
    for name, _equals, image in pairs:
        if not name or not image:
            raise click.BadParameter(f"{name!r}: write NAME=IMAGE, such as 'python:3.*=host'", param=option)
    return {name: whole_image(image) for name, _equals, image in pairs}


def parse_names(_: click.Context, option: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Names of variables. Raises click's BadParameter for anything else, patterns included."""
    for value in values:
        if not _NAME.fullmatch(value):
            raise click.BadParameter(
                f"{value!r} is not the name of a variable; give each by its whole name", param=option
            )
    return values


def parse_size(_: click.Context, option: click.Parameter, value: str | None) -> int | None:
    """A size such as 512M, 2G, 1.5GB or 1T as mebibytes. Raises click's BadParameter for anything else."""
    if value is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([MGT])(?:i?B)?", value.strip(), flags=re.ASCII | re.IGNORECASE)
    size = round(float(found[1]) * _MEBIBYTES[found[2].upper()]) if found else 0
    if not 0 < size < _ENDLESS:
        raise click.BadParameter(f"{value!r} is not a size; write 512M or 2G", param=option)
    return size


def parse_agent_files(_: click.Context, option: click.Parameter, values: tuple[str, ...]) -> tuple[dict[str, str], ...]:
    """Words like `my/agent` or `my/agent:/opt/agent` as AgentFiles. Raises click's BadParameter for anything else."""
    return tuple(_agent_files(value, option) for value in values)


def _agent_files(value: str, option: click.Parameter) -> dict[str, str]:
    files = agent_files_of(value)
    try:
        AgentFiles.model_validate(files)
    except ValidationError as error:
        problem = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise click.BadParameter(f"{value!r}: {problem}; write DIR or DIR:/WHERE", param=option) from error
    return {**files, "source": os.path.abspath(files["source"])}  # noqa: PTH100 - links stay as they were named


def parse_agent_layer(_: click.Context, option: click.Parameter, value: str | None) -> dict[str, str] | None:
    """A folder or an archive in the shape of AgentLayer. Raises click's BadParameter where there is none."""
    if value is None:
        return None
    if not os.path.exists(value):  # noqa: PTH110 - as it was named
        raise click.BadParameter(f"{value!r} is not there; name a folder or a tar archive", param=option)
    return {"source": os.path.abspath(value)}  # noqa: PTH100 - links stay as they were named


def agent_files_of(text: str) -> dict[str, str]:
    """`DIR` or `DIR:/WHERE` in the shape of AgentFiles."""
    source, colon, target = text.rpartition(":/")
    return {"source": source, "target": f"/{target}"} if colon else {"source": text}


def parse_agent_env(_: click.Context, option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Words like `NAME=value` or `NAME` as a map, the latter as a template that this machine fills in."""
    pairs = [value.partition("=") for value in values]
    for name, _equals, _value in pairs:
        if not _NAME.fullmatch(name):
            raise click.BadParameter(f"{name!r} is not the name of a variable; write NAME or NAME=VALUE", param=option)
    return {name: value if equals else f"${{{name}}}" for name, equals, value in pairs}


def parse_agent_options(_: click.Context, option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Words like `max_turns=50` as a map. Raises click's BadParameter for anything else."""
    pairs = [value.partition("=") for value in values]
    for name, equals, _value in pairs:
        if not (name and equals):
            raise click.BadParameter(f"{name!r}: write NAME=VALUE, such as max_turns=50", param=option)
    return {name: value for name, _equals, value in pairs}
