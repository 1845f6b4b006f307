"""How a command line sets what a job says: an option is declared once, at the field of the job that it sets.

From the declaration come the option of `seatrial run`, and of each command that has the same one; the job that a
command line stands for; the paths that a job file means; the command line that does a trial again; and what it means
to a comparison that two jobs differ in it.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, get_args

from pydantic.fields import FieldInfo

from seatrial.model.base import StrictModel

TASKS: Final = "What to run"
AGENTS: Final = "Agents"
MODELS: Final = "Models"
LIMITS: Final = "Limits and budgets"
SANDBOX: Final = "Sandbox and images"
VERIFICATION: Final = "Verification"
OUTPUT: Final = "Output"

Kind = Literal[
    "seconds",
    "mebibytes",
    "path",
    "image",
    "image map",
    "variable names",
    "variables",
    "assignments",
    "agent files",
    "agent layer",
    "shell command",
    "hyphenated",
]
"""What people write behind an option, where the type of its field does not say it.

Choices that are `hyphenated` are written with hyphens for underscores.
"""

Weight = Literal["meaning", "condition"]
"""Whether a difference changes what a reward means, or is a condition that a reader has to know."""


class Option(NamedTuple):
    """An option of the command line, at the field that it sets."""

    usage: str = ""
    """Its names and what is written behind it, such as `-k --attempts N`. Empty where only a job file can say it."""
    help: str = ""
    group: str = ""
    """The heading in `seatrial run --help`."""
    place: int = 1000
    """Where it stands below that heading: those with a lower number stand before it."""
    also: str = ""
    """Other names for it, Harbor's, which work and are not in the help."""
    usual: str | None = None
    """What the help gives as the default where the field's own would not do."""
    kind: Kind | None = None
    flag: str | None = None
    """The value that it sets, for an option with nothing behind it."""
    repeated: bool = False
    """Whether each one that is given makes another agent."""
    param: str | None = None
    """The name of a command's parameter for it, where that is not the field's."""
    weight: Weight | None = "condition"
    """What it means to a comparison that jobs differ in it. None where that is nothing, or depends on the values."""

    @property
    def names(self) -> list[str]:
        """The names that the help shows."""
        return [word for word in self.usage.split() if word.startswith("-")]

    @property
    def metavar(self) -> str | None:
        """What the help has for the value behind it."""
        return next((word for word in self.usage.split() if not word.startswith("-")), None)

    @property
    def long(self) -> str:
        """Its first long name."""
        return next(name for name in self.names if name.startswith("--"))

    def switch(self, *, on: bool) -> str:
        """The name that turns a switch, such as `--on/--off`, on or off."""
        return self.long.split("/")[0 if on else 1]


class Declared(NamedTuple):
    """An option, the field that it sets, and the key of that in a job file, such as `trial.cpus`."""

    key: str
    field: FieldInfo
    option: Option

    @property
    def param(self) -> str:
        """The name of a command's parameter for it."""
        return self.option.param or self.key.rpartition(".")[2]


def options_of(table: type[StrictModel]) -> dict[str, Option]:
    """The options at the fields of one table, by the names of the fields."""
    return {
        name: found
        for name, field in table.model_fields.items()
        for found in field.metadata
        if isinstance(found, Option)
    }


def declared_options(table: type[StrictModel], prefix: str = "") -> Iterator[Declared]:
    """What a command line can set in a table and in all tables inside it."""
    options = options_of(table)
    for name, field in table.model_fields.items():
        if name in options:
            if options[name].usage:
                yield Declared(f"{prefix}{name}", field, options[name])
        elif inner := table_type(field.annotation):
            yield from declared_options(inner, f"{prefix}{name}.")


def table_type(annotation: Any) -> type[StrictModel] | None:
    """The type of the table, or of the tables in the array, that a field holds; None for any other field."""
    if isinstance(annotation, type) and issubclass(annotation, StrictModel):
        return annotation
    return next(filter(None, map(table_type, get_args(annotation))), None)


def option_words(option: Option, value: Any) -> Iterator[str]:
    """The words of a command line that give an option this value."""
    if option.flag is not None:
        yield from (option.long,) if value == option.flag else ()
    elif isinstance(value, bool):
        yield option.switch(on=value)
    elif option.kind == "shell command":
        yield f"{option.long}={value}"
    else:
        values = [f"{name}={each}" for name, each in value.items()] if isinstance(value, Mapping) else value
        for each in values if isinstance(values, list | tuple) else [values]:
            yield from (option.long, written(option, each))


def written(option: Option, value: Any) -> str:
    """One value as it is written behind an option."""
    match option.kind:
        case "seconds":
            return f"{str(value).removesuffix('.0')}s"
        case "mebibytes":
            return f"{value}M"
        case "hyphenated":
            return str(value).replace("_", "-")
    return str(value)
