"""The options of commands that compute intervals and tests."""

from collections.abc import Callable
from typing import Any

import click

from seatrial.stats.quantiles import SUREST


def level_option() -> Callable[[Any], Any]:
    """The option `--level`."""
    return click.option(
        "--level", type=click.FloatRange(0.5, SUREST), default=0.95, show_default=True, help="How sure intervals are."
    )


def seed_option() -> Callable[[Any], Any]:
    """The option `--seed`."""
    return click.option(
        "--seed",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        help="For tests of more than 20 differences, which are drawn.",
    )
