"""Routes of rows: read from whatever `info` is, and put into it."""

from typing import Any

import pytest

from seatrial.env.env_route import route_of, with_route
from seatrial.errors import UsageError


@pytest.mark.parametrize(
    ("info", "route"),
    [
        ({"env_id": "a"}, ("a",)),
        ({"env_id": ["a", "b"]}, ("a", "b")),
        ('{"env_id": "a"}', ("a",)),
        ({}, ()),
        (None, ()),
    ],
)
def test_a_route_is_a_name_or_several(info, route):
    assert route_of({"info": info}) == route


def test_a_route_is_put_in_place_of_another_and_the_row_stays_as_it_was():
    row: dict[str, Any] = {"prompt": "q", "info": {"n": 1, "env_id": "old"}}
    assert with_route(row, ("a", "b"))["info"] == {"n": 1, "env_id": ["a", "b"]}
    assert with_route(row, ("a",))["info"] == {"n": 1, "env_id": "a"}
    assert with_route(row, ())["info"] == {"n": 1}
    assert with_route({"prompt": "q"}, ()) == {"prompt": "q"}
    assert row["info"]["env_id"] == "old"


@pytest.mark.parametrize("info", [{"env_id": 3}, {"env_id": ["a", 1]}, "{", "[1]", 5])
def test_what_is_none_is_named(info):
    with pytest.raises(UsageError, match="info"):
        route_of({"info": info})
