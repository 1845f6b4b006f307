"""Options of commands that read jobs: which trials they are about, how sure intervals are, and the seed of tests."""

from collections.abc import Callable
from typing import Any

import click

from seatrial.analysis.loaded import Filter, parse_filter
from seatrial.errors import UsageError
from seatrial.stats.estimates import SUREST


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


LEVEL = click.option(
    "--level", type=click.FloatRange(0.5, SUREST), default=0.95, show_default=True, help="How sure intervals are."
)
SEED = click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="For tests of more than 20 differences, which are drawn.",
)
