"""What people write behind options, as values: lengths of time, images instead of others, names of variables."""

import re

import click

from seatrial.cli.job_images import whole_image

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_ENDLESS = 1e9


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
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
            raise click.BadParameter(
                f"{value!r} is not the name of a variable; give each by its whole name", param=option
            )
    return values
