"""Options in groups, for a command and for the headings of its help; and how what people write behind them is read."""

import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
from pydantic import ValidationError

from seatrial.model.job import AgentFiles
from seatrial.model.options import Kind

IMAGE_WORDS = ("auto", "host")

Command = TypeVar("Command", bound=Callable[..., Any])
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_ENDLESS = 1e9
_SIZES = ("", "K", "M", "G", "T")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.ASCII | re.IGNORECASE)
_MOST_BYTES = 2**60
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
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
        return with_options(command, self.options)


def only_options(group: OptionGroup, *names: str) -> OptionGroup:
    """The options of a group that give a command one of these names."""
    chosen = (option for option in group.options if OptionGroup(group.title, (option,)).names & set(names))
    return OptionGroup(group.title, tuple(chosen))


def with_options(command: Command, options: Sequence[Decorator]) -> Command:
    for option in reversed(options):
        command = option(command)  # type: ignore[assignment]  # click's decorators return what they are given
    return command


AGENTS_DIR = click.option(
    "--agents-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="A folder with presets of your own (NAME.toml).  [~/.config/seatrial/agents]",
)


class GroupedCommand(click.Command):
    """A command whose help lists its options by group, and what is in none of them last.

    Spellings in `unlisted` work and are not shown.
    """

    groups: tuple[OptionGroup, ...] = ()
    unlisted: frozenset[str] = frozenset()

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
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
    return type("Grouped", (GroupedCommand,), {"groups": groups, "unlisted": unlisted})


def _parameters(options: Sequence[Decorator]) -> list[click.Parameter]:
    def nothing() -> None: ...

    decorated = with_options(nothing, options)
    return list(getattr(decorated, "__click_params__", ()))


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


def read_size(text: str) -> int | None:
    """The bytes of `20G`, `512M`, `1.5 GiB` or `0`, in powers of 1024; None for anything else."""
    found = _SIZE.fullmatch(text.strip())
    size = float(found[1]) * 1024 ** _SIZES.index(found[2].upper()) if found else _MOST_BYTES
    return int(size) if size < _MOST_BYTES else None


def parse_bytes(_: click.Context, option: click.Parameter, value: str) -> int:
    """A size as bytes. Raises click's BadParameter for anything else."""
    size = read_size(value)
    if size is None:
        raise click.BadParameter(f"{value!r} is not a size; write 512M, 20G or 0", param=option)
    return size


def parse_size(_: click.Context, option: click.Parameter, value: str | None) -> int | None:
    """A size such as 512M, 2G, 1.5GB or 1T as mebibytes. Raises click's BadParameter for anything else."""
    if value is None:
        return None
    size = round((read_size(value) or 0) / 2**20)
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


def parse_path(_: click.Context, __: click.Parameter, value: str | tuple[str, ...] | None) -> Any:
    """Paths as seen from the root, with the links that were named."""
    if isinstance(value, tuple):
        return tuple(map(os.path.abspath, value))
    return value and os.path.abspath(value)  # noqa: PTH100 - links stay as they were named


def whole_image(image: str, folder: str = "") -> str:
    """An image that means the same wherever one stands: folders become absolute, as seen from another folder."""
    if image in IMAGE_WORDS:
        return image
    path = os.path.abspath(os.path.join(folder, image))  # noqa: PTH100, PTH118 - links stay as they were named
    means_folder = image.startswith(("/", "./", "../")) or image in (".", "..") or os.path.isdir(path)  # noqa: PTH112 - links stay as they were named
    return path if means_folder else image


def _parse_hyphenated(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    return value and value.replace("-", "_")


PARSERS: Mapping[Kind, Callable[[click.Context, click.Parameter, Any], Any]] = {
    "seconds": parse_duration,
    "mebibytes": parse_size,
    "path": parse_path,
    "image map": parse_image_map,
    "variable names": parse_names,
    "variables": parse_agent_env,
    "assignments": parse_agent_options,
    "agent files": parse_agent_files,
    "agent layer": parse_agent_layer,
    "hyphenated": _parse_hyphenated,
}
"""How what is written behind a declared option is read; what the table lacks is used as it is written."""
