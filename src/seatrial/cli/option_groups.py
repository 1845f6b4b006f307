"""Options in groups: one list gives a command its options, and its help their headings."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclass(frozen=True, slots=True)
class OptionGroup:
    """Options that stand under one heading of a command's help."""

    title: str
    options: tuple[Decorator, ...]

    @property
    def names(self) -> frozenset[str]:
        """The names of the parameters that the options give to a command."""
        return frozenset(parameter.name for parameter in _parameters(self.options) if parameter.name)

    def __call__(self, command: Command) -> Command:
        """Give a command these options."""
        return with_options(command, self.options)


def with_options(command: Command, options: Sequence[Decorator]) -> Command:
    """Give a command options, in their order."""
    for option in reversed(options):
        command = option(command)  # type: ignore[assignment]  # click's decorators return what they are given
    return command


class GroupedCommand(click.Command):
    """A command whose help lists its options by group, and what is in none of them last."""

    groups: tuple[OptionGroup, ...] = ()

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """The options below their headings."""
        left = self.get_params(context)
        for group in self.groups:
            names = group.names
            _write(context, formatter, group.title, [each for each in left if each.name in names])
            left = [each for each in left if each.name not in names]
        _write(context, formatter, "Other options", left)


def grouped(*groups: OptionGroup) -> type[GroupedCommand]:
    """The class of a command with these groups."""
    return type("Grouped", (GroupedCommand,), {"groups": groups})


def _write(
    context: click.Context, formatter: click.HelpFormatter, title: str, parameters: Sequence[click.Parameter]
) -> None:
    records = [record for each in parameters if (record := each.get_help_record(context))]
    if records:
        with formatter.section(title):
            formatter.write_dl(records)


def _parameters(options: Sequence[Decorator]) -> list[click.Parameter]:
    def nothing() -> None: ...

    decorated = with_options(nothing, options)
    return list(getattr(decorated, "__click_params__", ()))
