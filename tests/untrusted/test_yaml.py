"""YAML from strangers: plain values, bounded, and every fault with its place."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.untrusted.yaml import YamlError, read_documents


def test_documents_are_plain_values_and_dates_stay_text():
    assert read_documents("a: 2024-01-02\nb: [1, x]\n---\n- true\n") == [{"a": "2024-01-02", "b": [1, "x"]}, [True]]
    assert read_documents("") == []


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("a: [1\nb: }", "not YAML: ", (2, 2)),
        ("a: !!python/object:os.system x", "not YAML: could not determine a constructor", (1, 4)),
        ("&a [*a]", "an alias contains itself", (1, 1)),
        ("!!bool x", "not YAML: 'x'", (1, 1)),
        ("a\x00", "not YAML: unacceptable character #x0000", (1, 1)),
        ("[" * 5000, "nested deeper than", (1, 1)),
        ("a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
            f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 10)}]\n" for n in range(8)
        ), "aliases expand to more than", (6, 1)),
    ],
    ids=["syntax", "tag", "circle", "value", "character", "depth", "expansion"],
)  # fmt: skip
def test_what_is_refused_is_named_with_its_place(text, message, place):
    with pytest.raises(YamlError) as caught:
        read_documents(text)
    assert str(caught.value).startswith(message)
    assert (caught.value.line, caught.value.column) == place


tags = st.sampled_from(["", "!!bool ", "!!int ", "!!float ", "!!binary ", "!!set ", "!!omap ", "!!str ", "!x "])


@given(st.text(max_size=200) | st.builds("{0}{1}".format, tags, st.text(max_size=20)))
def test_any_text_is_read_or_refused(text):
    with suppress(YamlError):
        assert isinstance(read_documents(text), list)


@pytest.mark.parametrize("text", ["a: 1\na: 2", "x: [{b: 1, b: 1}]", "x: &x {c: 1, c: 2}\ny: *x"])
def test_a_repeated_key_counts_last_or_is_refused(text):
    assert read_documents(text)
    with pytest.raises(YamlError, match=r"the key '[abc]' is given twice"):
        read_documents(text, repeated="refuse")


def test_the_same_key_in_two_tables_is_not_repeated():
    text = "a: {x: 1}\nb: {x: 1}\nc: &c {x: 2}\nd: [*c, *c]"
    assert read_documents(text, repeated="refuse") == read_documents(text)
