"""The colours of outcomes and warnings on a terminal; none in a pipe, and none for people who set NO_COLOR."""

import os
from collections.abc import Mapping

import click

OUTCOME_COLOURS: Mapping[str, str] = {
    "pass": "green",
    "partial": "yellow",
    "fail": "red",
    "invalid_output": "red",
    "no_output": "red",
    "verifier_error": "magenta",
    "infrastructure_error": "magenta",
    "cancelled": "magenta",
}
TYPEWRITERS = ("dumb", "unknown")
"""Terminals, by their TERM, that have no colours and on which nothing can be drawn over."""
SEVERITY_COLOURS: Mapping[str, str] = {"error": "red", "warning": "yellow", "note": "cyan"}


def paint(text: str, colour: str | None = None, *, bold: bool = False) -> str:
    """Text in a colour. `click.echo` takes the colour out again where the output is no terminal."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") in TYPEWRITERS
    if plain or not (colour or bold):
        return text
    return click.style(text, fg=colour, bold=bold or None)


def paint_outcome(text: str) -> str:
    """The name of an outcome in its colour; anything else as it is."""
    return paint(text, OUTCOME_COLOURS.get(text))
