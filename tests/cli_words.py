"""A line for `seatrial` taken apart by the program itself, without running it."""

from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import click
from click.testing import CliRunner

from seatrial.cli.job_options import new_job_options
from seatrial.cli.job_spec import new_job
from seatrial.cli.main import cli
from seatrial.model.job import JobSpec
from seatrial.model.options import Declared


def taken_apart(name: str, words: list[str]) -> dict[str, Any]:
    """What a command makes of the words after its name.

    As a part of the program: by itself a command would have no `-h`, and click remembers that for all tests to come.
    """
    whole = click.Context(cli, **cli.context_settings)
    command = cli.get_command(whole, name)
    assert command is not None
    return command.make_context(name, words, parent=whole).params


def parse(decorate: Any, *arguments: object) -> dict[str, Any]:
    """The options as click gives them to a command."""
    taken: dict[str, Any] = {}

    def take(**options: Any) -> None:
        taken.update(options)

    done = CliRunner().invoke(
        click.command()(decorate(take)), [str(argument) for argument in arguments], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    return taken


def new(*arguments: object) -> tuple[JobSpec, Path]:
    """The job of a command line of `seatrial run`, and its folder."""
    return new_job(parse(new_job_options, *arguments))


def odd_value(declared: Declared) -> Any:
    """A value that an option of tasks, trials, models or runs has not by default."""
    kind, option = declared.field.annotation, declared.option
    samples: dict[Any, Any] = {"path": "/x", "image": "host", "image map": {"a": "host"}, "variable names": "A"}
    samples["assignments"] = {"a": "b"}
    if get_origin(kind) is tuple:
        return (samples.get(option.kind, "x"),)
    if option.kind in samples or option.flag is not None:
        return samples.get(option.kind, option.flag)
    if get_origin(kind) is Literal:
        return next(each for each in get_args(kind) if each != declared.field.default)
    if kind is bool:
        return not declared.field.default
    return next(value for name, value in {"int": 7, "float": 0.25, "str": "x"}.items() if name in str(kind))
