"""`--where outcome=fail,task=easy-*`: which trials a command is about."""

from collections.abc import Callable
from typing import Any

import click

from seatrial.analysis.filters import Filter, parse_filter
from seatrial.errors import UsageError


def where_option(verb: str) -> Callable[[Any], Any]:
    """The option `--where` of a command that shows or writes trials; it arrives as a Filter named `where`."""
    return click.option(
        "--where",
        multiple=True,
        callback=_parse,
        metavar="FILTER",
        help=f"{verb} only trials that fit, such as 'outcome=fail,task=easy-*' or 'reward<0.5'.",
    )


def _parse(_: click.Context, option: click.Parameter, values: tuple[str, ...]) -> Filter:
    try:
        return parse_filter(*values)
    except UsageError as error:
        raise click.BadParameter(str(error), param=option) from error
