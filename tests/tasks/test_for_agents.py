"""task.toml for agents: the same without [check], whatever its author wrote around it."""

import pytest
import tomli
from hypothesis import given
from hypothesis import strategies as st

from seatrial.tasks import for_agents
from seatrial.tasks.for_agents import without_check


def values(config: bytes):
    return tomli.loads(config.decode("utf-8-sig"))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("[a]\nx = 1 # one\n\n[check]\naccept = ['V2/*']\n\n[b]\ny = 2\n", "[a]\nx = 1 # one\n\n[b]\ny = 2\n"),
        ("[a]\nx = 1\n# not looked at: signs\n[check]\naccept = [\n  'V2/*',\n]\n", "[a]\nx = 1\n"),
        ("check.accept = ['V2/*']\nx = 1\n", "x = 1\n"),
        ("check = { accept = ['V2/*'] }\n[a]\nx = 1\n", "[a]\nx = 1\n"),
        ("[ 'check' ]\naccept = []\n[check.more]\nx = 1\n[a]\n", "[a]\n"),
    ],
)
def test_the_table_goes_and_the_rest_stays_as_it_was_written(text, left):
    assert without_check(text.encode()).decode() == left


@pytest.mark.parametrize(
    "text", ["", "[metadata]\ncheck = 1\n", "[checks]\nx = 1\n", "# [check]\nx = 'check'\n", "check = ", "\ufffdcheck"]
)
def test_a_file_without_it_stays_as_it_is(text):
    assert without_check(text.encode()) == text.encode()


@pytest.mark.parametrize(
    "text",
    [
        'check.accept = [\n  "V2/*",\n]\nx = 1\n',
        "x = '''\n[check]\n'''\n[check]\naccept = ['secret']\n",
        '"\\u0063heck" = {accept = ["secret"]}\nx = [1, 2.5, true, 1979-05-27T07:32:00Z, 07:32:00, "\\u007f\\n"]\n',
        "[check]\naccept = ['''\n[b]\n''']\n[a.b]\nx = -1e20\n",
        "[check]\naccept = ['secret']\n[a]\nx = nan\ny = inf\n",
    ],
)
def test_where_lines_cannot_be_cut_out_it_is_written_anew(text):
    left = without_check(text.encode())
    assert b"secret" not in left
    found, wanted = values(left), values(text.encode())
    del wanted["check"]
    assert repr(found) == repr(wanted)


texts = st.text(st.characters(codec="utf-8"))
toml_values = st.recursive(
    texts | st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


@given(toml_values)
def test_whatever_else_is_in_it_stays(value):
    written = f'"\\u0063heck" = 1\nx = {for_agents._value(value)}\n'
    assert values(without_check(written.encode())) == {"x": value}


@given(st.text())
def test_any_bytes_are_taken(text):
    without_check(("check" + text).encode(errors="surrogatepass"))
