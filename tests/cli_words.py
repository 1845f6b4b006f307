"""A line for `seatrial` taken apart by the program itself, without running it."""

from typing import Any

import click

from seatrial.cli.main import cli


def taken_apart(name: str, words: list[str]) -> dict[str, Any]:
    """What a command makes of the words after its name.

    As a part of the program: by itself a command would have no `-h`, and click remembers that for all tests to come.
    """
    whole = click.Context(cli, **cli.context_settings)
    command = cli.get_command(whole, name)
    assert command is not None
    return command.make_context(name, words, parent=whole).params
