"""`seatrial schema TYPE`: the JSON Schema of a stored type, for readers in other languages."""

import difflib
from pathlib import Path

import click

from seatrial.errors import UsageError
from seatrial.model.stored import STORED_TYPES, json_schema


@click.command("schema")
@click.argument("type_name", metavar="[TYPE]", required=False)
@click.option("--write", type=click.Path(path_type=Path), help="Write the schemas of all types into this folder.")
def command(type_name: str | None, write: Path | None) -> None:
    """Print the JSON Schema of TYPE, or the names of all types."""
    if write:
        write.mkdir(parents=True, exist_ok=True)
        for name in STORED_TYPES:
            (write / f"{name}.json").write_text(json_schema(name), encoding="utf-8")
    elif type_name is None:
        click.echo("\n".join(STORED_TYPES))
    elif type_name in STORED_TYPES:
        click.echo(json_schema(type_name), nl=False)
    else:
        near = difflib.get_close_matches(type_name, STORED_TYPES, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UsageError(f"no stored type {type_name!r}, expected one of {', '.join(STORED_TYPES)}{hint}")
