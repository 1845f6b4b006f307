"""The options of `seatrial show` that say which numbers, of which trials, and in which order."""

from collections.abc import Sequence
from dataclasses import dataclass

import click

from seatrial.analysis.filters import Filter
from seatrial.analysis.groups import GROUP_KEYS, SORT_KEYS, GroupKey, SortKey
from seatrial.cli.export_filter import where_option
from seatrial.cli.gates import Command


@dataclass(frozen=True, slots=True)
class Sorting:
    """By what rows are sorted; numbers from the largest, unless reversed."""

    key: SortKey
    reverse: bool


@dataclass(frozen=True, slots=True)
class ShowOptions:
    """What is asked for. Without `by` and `heat` that is a summary of everything."""

    where: Filter
    by: GroupKey | None = None
    sort: Sorting | None = None
    heat: bool = False
    ks: Sequence[int] | None = None
    everything: bool = False

    @property
    def is_by_verdict(self) -> bool:
        """Whether trials are chosen by what their verifier said, so that their mean is no news."""
        return any(condition.key in ("outcome", "reward") for condition in self.where.conditions)


def show_options(command: Command) -> Command:
    """Give a command these options, under the names of ShowOptions."""
    options = (
        click.option("--by", type=click.Choice(GROUP_KEYS), help="A row for each of these, instead of the summary."),
        where_option("Show"),
        click.option(
            "--sort",
            metavar="KEY",
            callback=_parse_sort,
            help=f"Sort by {', '.join(SORT_KEYS)}; numbers from the largest. -KEY is the other way round.",
        ),
        click.option("--heat", is_flag=True, help="Draw a map of tasks and agents, easy tasks first."),
        click.option("--k", "ks", metavar="K,…", callback=_parse_ks, help="Show pass@k and pass^k for these k."),
        click.option("--all", "everything", is_flag=True, help="Show every row, however many there are."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _parse_sort(_: click.Context, option: click.Parameter, value: str | None) -> Sorting | None:
    if value is None:
        return None
    for key in SORT_KEYS:
        if value.removeprefix("-") == key:
            return Sorting(key, value.startswith("-"))
    raise click.BadParameter(f"{value!r} is none of {', '.join(SORT_KEYS)}, nor one of them with a -", param=option)


def _parse_ks(_: click.Context, option: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    if value is None:
        return None
    numbers = value.split(",")
    if not all(number.strip().isascii() and number.strip().isdigit() and int(number) for number in numbers):
        raise click.BadParameter(f"{value!r}: expected whole numbers from 1 on, such as 1,5", param=option)
    return tuple(sorted({int(number) for number in numbers}))
