"""Tool tables: what a model is told of a Python function. The expectations are those of the verifiers package."""

import enum
import inspect
from typing import Annotated, Any, Literal, Optional, Union

import pytest
from pydantic import BaseModel, Field

from seatrial.env.tool_tables import read_docstring, readable, shortened, tool_table
from seatrial.errors import UsageError


class Point(BaseModel):
    """A point."""

    x: int
    tag: str | None = None


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


def parameters(tool, skip=()):
    return tool_table(tool, skip)["function"]["parameters"]


def properties(tool, skip=()):
    return parameters(tool, skip)["properties"]


def test_a_function_as_a_whole():
    def search(query: str, n: int = 5) -> list[str]:
        """Search the index.

        Args:
            query: What to look for.
        """
        return [query] * n

    assert tool_table(search) == {
        "type": "function",
        "function": {
            "name": "search",
            "description": "Search the index.",
            "parameters": {
                "type": "object",
                "title": "search_args",
                "properties": {
                    "query": {"title": "Query", "type": "string", "description": "What to look for."},
                    "n": {"title": "N", "type": "integer", "default": 5},
                },
                "required": ["query", "n"],
                "additionalProperties": False,
            },
            "strict": True,
        },
    }


def test_hints():
    def hinted(
        a: Optional[int],  # noqa: UP045 - as many write it
        b: Union[int, str] = 1,  # noqa: UP007
        c: Literal["x", "y"] = "x",
        d: list[list[int]] = [],  # noqa: B006
        e: "float | None" = None,
        f: Annotated[int, "the f"] = 0,
        g: Annotated[int, Field(ge=1, description="the g")] = 1,
        h=None,
    ): ...

    assert properties(hinted) == {
        "a": {"anyOf": [{"type": "integer"}, {"type": "null"}], "title": "A"},
        "b": {"anyOf": [{"type": "integer"}, {"type": "string"}], "default": 1, "title": "B"},
        "c": {"enum": ["x", "y"], "type": "string", "default": "x", "title": "C"},
        "d": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}, "default": [], "title": "D"},
        "e": {"anyOf": [{"type": "number"}, {"type": "null"}], "title": "E"},
        "f": {"type": "integer", "default": 0, "title": "F", "description": "the f"},
        "g": {"type": "integer", "default": 1, "title": "G", "description": "the g", "minimum": 1},
        "h": {"title": "H"},
    }


def test_models_are_strict_to_the_bottom_and_nothing_stands_beside_a_reference():
    def draw(p: Point, ps: list[Point], c: Colour = Colour.RED):
        """Draw.

        Args:
            p: the first
        """

    drawn = parameters(draw)
    point = drawn["$defs"]["Point"]
    assert (point["required"], point["additionalProperties"]) == (["x", "tag"], False)
    assert drawn["properties"]["p"] == {**point, "description": "the first"}
    assert drawn["properties"]["ps"]["items"] == {"$ref": "#/$defs/Point"}
    assert drawn["properties"]["c"]["enum"] == ["red", "blue"]


@pytest.mark.parametrize("hint", [dict, dict[str, int], list[dict[str, Any]]])
def test_tables_with_any_keys_are_offered_but_not_strictly(hint):
    def store(value, n: int = 2): ...

    store.__annotations__["value"] = hint
    table = tool_table(store)["function"]
    assert "strict" not in table
    assert table["parameters"]["required"] == ["value"]


def test_a_function_that_takes_anything_says_so():
    def anything(a: int, *rest: int, **more: str): ...

    assert parameters(anything)["additionalProperties"] is True
    assert list(properties(anything)) == ["a"]


def test_arguments_to_skip_are_not_there_whatever_their_type():
    class Opaque: ...

    def bash(command: str, place: Opaque, point: Point): ...

    shown = parameters(bash, skip=["place", "point"])
    assert (shown["required"], "$defs" in shown) == (["command"], False)
    with pytest.raises(UsageError, match="the tool bash has an argument"):
        tool_table(bash)


def test_methods_and_names_that_pydantic_does_not_like():
    class Kit:
        def method(self, json: str, _private: int, model_config: int):
            """Do it."""

    table = tool_table(Kit().method)["function"]
    assert (table["name"], table["description"]) == ("method", "Do it.")
    assert table["parameters"]["required"] == ["json", "_private", "model_config"]


def test_a_hint_that_means_nothing_is_named():
    def lost(a: int): ...

    lost.__annotations__["a"] = "Missing"
    with pytest.raises(UsageError, match="the tool lost has no signature that can be read: name 'Missing'"):
        tool_table(lost)
    assert inspect.signature(lost).parameters


def test_a_docstring_with_sections_with_a_colon():
    description, arguments = read_docstring(
        """Search the index.

        It is fast.

        Args:
            query (str): What to look for,
                in words.
            n: How many: at most.
            **rest: Anything.

        Returns:
            n: not an argument
        """
    )
    assert description == "Search the index.\n\nIt is fast."
    assert arguments == {"query": "What to look for,\nin words.", "n": "How many: at most.", "rest": "Anything."}


def test_a_docstring_with_sections_with_a_rule():
    description, arguments = read_docstring(
        """Multiply.

        Parameters
        ----------
        x, y : float
            The factors.
        n : int, optional
            How often.

        Returns
        -------
        z : float
            The product.
        """
    )
    assert description == "Multiply."
    assert arguments == {"x": "The factors.", "y": "The factors.", "n": "How often."}


def test_a_docstring_with_fields():
    description, arguments = read_docstring(
        """Subtract.

        :param x: left
        :param int y: right,
            and more
        :type x: int
        :return: the difference
        """
    )
    assert description == "Subtract."
    assert arguments == {"x": "left", "y": "right,\nand more"}


def test_a_word_with_a_colon_and_nothing_below_begins_no_section():
    assert read_docstring("Say what you mean.\n\nNote:\nthis is text")[0] == (
        "Say what you mean.\n\nNote:\nthis is text"
    )
    assert read_docstring("x\nArgs:\n    a: first")[1] == {"a": "first"}


def test_no_docstring_says_nothing():
    assert read_docstring(None) == read_docstring("") == ("", {})


@pytest.mark.parametrize(
    ("stdout", "stderr", "said"),
    [("a\n", "", "a"), ("a\n", "b\n", "a\nstderr:\nb"), ("", "b", "stderr:\nb"), ("", " ", "(no output)")],
)
def test_both_streams_are_one_text(stdout, stderr, said):
    assert readable(stdout, stderr) == said


def test_a_long_text_loses_its_middle():
    assert shortened("abcdefghij", 4) == "ab\n[… 6 characters left out …]\nij"
    assert shortened("abcd", 4) == "abcd"
    assert len(readable("x" * 10**6, "")) < 51_000
