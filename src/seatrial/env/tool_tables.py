"""Tools as chat completions take them, made of tables in other forms and of Python functions; and their output.

A function's name, its docstring and its type hints say what a model is told of it. Schemas are strict where they can
be: each argument is required, also one with a default, and no others are allowed. That is what providers ask for to
hold a model to a schema. Arguments that are open tables rule it out. What a program wrote is made readable here too.
"""

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, Field, create_model
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic.fields import FieldInfo

from seatrial.env.arguments import NAMED
from seatrial.errors import UsageError

Tool = Callable[..., Any]
ToolTable = dict[str, Any]
"""A tool as chat completions take it: `type` and `function`."""

_FUNCTION_KEYS = ("name", "description", "parameters", "strict")


def as_tool_tables(tools: Sequence[Any] | None) -> list[dict[str, Any]] | None:
    """Tables of `type` and `function`; None when there are no tools. Raises UsageError for one that is none.

    A tool is such a table already, or one of `name`, `description` and `parameters`, or an object that becomes one of
    them by `model_dump`.
    """
    return [_as_table(tool, number) for number, tool in enumerate(tools)] if tools else None


def _as_table(tool: Any, number: int) -> dict[str, Any]:
    if not isinstance(tool, Mapping) and hasattr(tool, "model_dump"):
        tool = tool.model_dump(exclude_none=True)
    if isinstance(tool, Mapping) and isinstance(tool.get("function"), Mapping):
        return {"type": "function", **tool}
    if isinstance(tool, Mapping) and isinstance(tool.get("name"), str):
        named = {key: tool[key] for key in _FUNCTION_KEYS if tool.get(key) is not None}
        return {"type": "function", "function": named}
    raise UsageError(
        f"tool {number} is {repr(tool)[:120]}; expected a table with `name`, `description` and `parameters`, "
        "or one of chat completions with `type` and `function`"
    )


def tool_name(tool: Tool) -> str:
    return getattr(tool, "__name__", type(tool).__name__)


def tool_table(tool: Tool, skip: Collection[str] = ()) -> ToolTable:
    """The table of a function, without the arguments to skip. Raises UsageError for hints that JSON has no form for."""
    description, notes = read_docstring(inspect.getdoc(tool))
    parameters, is_open = _parameters(tool, skip)
    fields = dict(_field(each, notes.get(name)) for name, each in parameters.items())
    name = tool_name(tool)
    try:
        arguments: type[BaseModel] = create_model(f"{name}_args", **fields)  # type: ignore[call-overload]
        schema = arguments.model_json_schema()
    except (PydanticSchemaGenerationError, PydanticUserError, NameError) as error:
        raise UsageError(f"the tool {name} has an argument that no schema can be made of: {error}") from error
    strict = not is_open and not _is_open(schema)
    function = {"name": name, "description": description, "parameters": schema}
    if not strict:
        return {"type": "function", "function": {**function, "parameters": {**schema, "additionalProperties": is_open}}}
    return {"type": "function", "function": {**function, "parameters": _strict(schema, schema), "strict": True}}


def read_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """What a docstring says of a function, and of each argument, in any of the usual ways of writing."""
    from docstring_parser import ParseError, parse  # noqa: PLC0415 - slow to import, and few environments have tools

    try:
        said = parse(text or "")
    except ParseError:
        return inspect.cleandoc(text or ""), {}
    notes = {
        name.strip().lstrip("*"): each.description or "" for each in said.params for name in each.arg_name.split(",")
    }
    return (said.description or "").strip(), notes


def _parameters(tool: Tool, skip: Collection[str]) -> tuple[dict[str, inspect.Parameter], bool]:
    """The arguments that a model may name, and whether it may name others."""
    try:
        found = inspect.signature(tool, eval_str=True).parameters
    except (NameError, ValueError, TypeError) as error:
        raise UsageError(f"the tool {tool_name(tool)} has no signature that can be read: {error}") from error
    named = {name: each for name, each in found.items() if each.kind in NAMED and name not in skip}
    return named, any(each.kind is inspect.Parameter.VAR_KEYWORD for each in found.values())


def _field(parameter: inspect.Parameter, described: str | None) -> tuple[str, tuple[Any, Any]]:
    """An argument as a field of a model of pydantic, which does not take every name that an argument may have."""
    hint = Any if parameter.annotation is parameter.empty else parameter.annotation
    default = ... if parameter.default is parameter.empty else parameter.default
    if isinstance(default, FieldInfo):
        return parameter.name, (hint, default)
    named = Field(default, alias=parameter.name)
    description = described or _note(hint)
    if description:  # one that is None would take the place of the hint's own
        named = Field(default, alias=parameter.name, description=description)
    return f"argument_{parameter.name}", (hint, named)


def _note(hint: Any) -> str | None:
    """The text that an annotated type has beside it."""
    return next((each for each in getattr(hint, "__metadata__", ()) if isinstance(each, str)), None)


def _is_open(schema: Any) -> bool:
    if isinstance(schema, list):
        return any(_is_open(each) for each in schema)
    if not isinstance(schema, Mapping):
        return False
    return bool(schema.get("additionalProperties")) or any(_is_open(each) for each in schema.values())


def _strict(schema: Any, root: Mapping[str, Any]) -> Any:
    """A schema in which each table has exactly the keys that it names."""
    if isinstance(schema, list):
        return [_strict(each, root) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    if "$ref" in schema and len(schema) > 1:  # nothing may stand beside a reference
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**_referred(schema["$ref"], root), **beside}
    kept = {key: value for key, value in schema.items() if key != "default" or value is not None}
    strict = {key: _strict_value(key, value, root) for key, value in kept.items()}
    if strict.get("type") == "object":
        strict["additionalProperties"] = False
        strict["required"] = list(strict.setdefault("properties", {}))
    return strict


def _strict_value(key: str, value: Any, root: Mapping[str, Any]) -> Any:
    if key in ("properties", "$defs"):  # by names that strangers chose
        return {name: _strict(each, root) for name, each in value.items()}
    return value if key in ("default", "enum", "const", "examples") else _strict(value, root)


def _referred(reference: str, root: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Any = root
    for part in reference.removeprefix("#/").split("/"):
        found = found[part]
    return found  # type: ignore[no-any-return]


# Output: what a program wrote, not without words, and not without end.

_MAX_CHARS = 50_000
"""Some 15,000 tokens."""


def readable(stdout: str, stderr: str) -> str:
    parts = [stdout.strip(), f"stderr:\n{stderr.strip()}" if stderr.strip() else ""]
    return shortened("\n".join(part for part in parts if part) or "(no output)")


def shortened(text: str, limit: int = _MAX_CHARS) -> str:
    """A text without its middle where it is too long."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"
