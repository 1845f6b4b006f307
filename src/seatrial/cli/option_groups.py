"""Options in groups: one list gives a command its options, and its help their headings."""

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
_RANGE = re.compile(r"\s*\[[0-9.]*<?=?x[<>]?=?[0-9.]*\]$")  # click's way to show that a number is positive


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
    """A command whose help lists its options by group, and what is in none of them last.

    Spellings in `unlisted` work and are not shown.
    """

    groups: tuple[OptionGroup, ...] = ()
    unlisted: frozenset[str] = frozenset()

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """The options below their headings."""
        left = [each for each in self.get_params(context) if isinstance(each, click.Option)]
        for group in self.groups:
            names = group.names
            self._write(context, formatter, group.title, [each for each in left if each.name in names])
            left = [each for each in left if each.name not in names]
        self._write(context, formatter, "Other options", left)

    def format_epilog(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        """The examples as they are written: a line that is broken cannot be copied."""
        if self.epilog:
            with formatter.section("Examples"):
                for line in inspect.cleandoc(self.epilog).splitlines():
                    formatter.write(f"{'':{formatter.current_indent}}{line}\n".replace("  \n", "\n"))

    def _write(
        self,
        context: click.Context,
        formatter: click.HelpFormatter,
        title: str,
        parameters: Sequence[click.Option],
    ) -> None:
        found = [record for each in parameters if (record := each.get_help_record(context))]
        if found:
            with formatter.section(title):
                formatter.write_dl([(self._listed(names), _RANGE.sub("", text)) for names, text in found])

    def _listed(self, names: str) -> str:
        *spellings, last = names.split(", ")
        last, space, metavar = last.partition(" ")
        return ", ".join(each for each in (*spellings, last) if each not in self.unlisted) + space + metavar


def grouped(*groups: OptionGroup, unlisted: frozenset[str] = frozenset()) -> type[GroupedCommand]:
    """The class of a command with these groups."""
    return type("Grouped", (GroupedCommand,), {"groups": groups, "unlisted": unlisted})


def _parameters(options: Sequence[Decorator]) -> list[click.Parameter]:
    def nothing() -> None: ...

    decorated = with_options(nothing, options)
    return list(getattr(decorated, "__click_params__", ()))
